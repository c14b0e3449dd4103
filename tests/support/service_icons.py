"""Writes `server/service_icons.json` from the icon set Simple Icons: `make service-icons`.

The services are those that node types of n8n and Node-RED are called after, as far as the set has
an icon of them: it has none of Slack, OpenAI, Microsoft and Amazon, whose owners do not allow it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.support.node_packages import node_modules

VERSION = "16.37.0"
FILE = Path(__file__).parents[2] / "server" / "service_icons.json"
SERVICES = """
    airbyte airtable alibabacloud ansible anthropic apacheairflow apachecassandra apachecouchdb
    apachekafka apachenifi apachespark arduino asana auth0 authentik backblaze baserow bigcommerce
    bitbucket bitly bitwarden bluesky bluetooth box brandfetch brevo calendly caldotcom circleci
    claude clickhouse clickup clockify cloudflare cloudinary cockpit coda confluence consul
    contentful cratedb crowdin databricks datadog deepl deepseek devdotto dhl discord discourse
    disqus docker dropbox drupal duckdb duckduckgo dynatrace ebay elastic elasticsearch elevenlabs
    erpnext esphome etsy facebook feedly figma firebase flickr forgejo formstack ghost giphy git
    gitea github githubcopilot gitlab gmail googleads googleanalytics googlebigquery
    googlecalendar googlechat googlecloud googlecloudstorage googledocs googledrive googleforms
    googlegemini googlekeep googlemaps googlemeet googlephotos googlesearchconsole googlesheets
    googleslides googletagmanager googletasks googletranslate grafana graphql gumroad hashnode
    helpscout homeassistant html5 hubspot huggingface icloud ifttt imgur influxdb instagram
    intercom invoiceninja javascript jellyfin jenkins jira joomla jsonwebtokens kaggle keycloak
    klarna kofi kubernetes langchain line linear mailchimp mailgun mapbox mariadb markdown
    mastodon matomo matrix mattermost mautic medium metabase milvus minimax minio mistralai
    mixpanel modelcontextprotocol mongodb mqtt mysql n8n nasa neo4j netlify newrelic nextcloud
    nginx nodedotjs nodered nomad notion npm nvidia odoo okta ollama openrouter openstreetmap
    opsgenie paddle pagerduty patreon paypal perplexity pexels philipshue php pinboard pinterest
    plausibleanalytics plex posthog postgresql postman prestashop producthunt prometheus
    protonmail pulumi pushbullet python qdrant quickbooks rabbitmq raspberrypi reddit redis
    replicate rocketdotchat rss rundeck searxng securityscorecard sentry shelly shopify siemens
    snapchat snowflake sonos soundcloud splunk spotify sqlite squarespace stackoverflow statuspage
    storyblok strapi strava stripe substack supabase surveymonkey tado tasmota teamcity telegram
    terraform tiktok timescale todoist toggl travisci trello twitch typeform typescript typo3
    umami unsplash uptimekuma vercel viber vimeo vonage webex webflow wechat whatsapp wikipedia
    wise wix wolfram woocommerce wordpress x xero xml ycombinator youtube zapier zendesk
    zigbee2mqtt zoho zoom zulip
"""
# What types call a service otherwise than the set does.
OTHER_NAMES = {
    "postgresql": ("postgres", "postgreschat", "pgvector"),
    "mongodb": ("mongodbatlas", "mongodbchat"),
    "redis": ("redischat",),
    "mistralai": ("mistralcloud",),
    "huggingface": ("huggingfaceinference", "openhuggingfaceinference"),
    "apachekafka": ("kafka",),
    "caldotcom": ("cal",),
    "webex": ("ciscowebex",),
    "facebook": ("facebookgraphapi", "facebookleadads"),
    "firebase": ("googlefirebasecloudfirestore", "googlefirebaserealtimedatabase"),
    "googlecloud": ("googlevertex", "googlecloudnaturallanguage", "googlecontacts"),
    "googleads": ("googleadwords",),
    "elastic": ("elasticsecurity",),
    "ycombinator": ("hackernews",),
    "html5": ("html", "htmlextract"),
    "homeassistant": ("ha", "apicurrentstate", "apicallservice", "serverstatechanged"),
    "jsonwebtokens": ("jwt",),
    "mqtt": ("mqttin", "mqttout", "mqttbroker"),
    "mysql": ("mysqldatabase",),
    "rss": ("rssfeedread",),
    "sentry": ("sentryio",),
    "telegram": ("telegrambot", "telegramsender", "telegramreceiver"),
    "influxdb": ("influxdbin", "influxdbout", "influxdbbatch"),
    "timescale": ("timescaledb",),
    "vercel": ("vercelaigateway",),
    "wolfram": ("wolframalpha",),
    "x": ("twitter",),
    "zoho": ("zohocrm",),
    "modelcontextprotocol": ("mcp", "mcpclient"),
    "rocketdotchat": ("rocketchat",),
}


def paths_of(icons: Path) -> dict[str, str]:
    """Returns the outlines of the services on a grid of 24. Raises: AssertionError for a service
    without an icon.
    """
    found: dict[str, str] = {}
    for name in SERVICES.split():
        file = icons / f"{name}.svg"
        assert file.is_file(), f"Simple Icons {VERSION} has no {name}"
        path = re.search(r'<path d="([^"]+)"', file.read_text("utf-8"))
        assert path is not None, file
        found[name] = path[1]
    return found


def main() -> None:
    icons = paths_of(node_modules(f"simple-icons@{VERSION}") / "simple-icons" / "icons")
    names = {other: name for name, others in OTHER_NAMES.items() for other in others}
    document = {
        "source": f"Simple Icons {VERSION}, https://simpleicons.org",
        "licence": "CC0-1.0",
        "icons": icons,
        "names": dict(sorted(names.items())),
    }
    FILE.write_text(json.dumps(document, indent=0) + "\n", "utf-8")
    print(f"{len(icons)} icons in {FILE.name}")


if __name__ == "__main__":
    main()
