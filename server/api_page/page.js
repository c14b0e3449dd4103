// Shows the two descriptions that the service gives of itself: Swagger UI has the first, the second is a list.

const theme = keptIn("localStorage", "theme");
const likesDark = matchMedia("(prefers-color-scheme: dark)");

function keptIn(area, name) {
  try {
    return globalThis[area].getItem(`nodius.${name}`);
  } catch {
    return null; // storage is turned off
  }
}

function applyTheme() {
  const dark = theme === "dark" || (theme !== "light" && likesDark.matches);
  document.documentElement.classList.toggle("dark-mode", dark);
}

function made(tag, ...inside) {
  const element = document.createElement(tag);
  element.append(...inside);
  return element;
}

// A message: its type and meaning, and its JSON Schema when it is opened.
function shown(schema, types) {
  const details = made("details");
  const words = made("span", ` ${schema.description ?? ""}`);
  words.className = "quiet";
  details.append(made("summary", made("code", types.join(", ")), words));
  details.addEventListener("toggle", () => {
    if (details.children.length === 1) details.append(made("pre", JSON.stringify(schema, null, 2)));
  });
  return details;
}

async function listMessages() {
  const description = await (await fetch("/api/ws-messages.json")).json();
  const section = document.getElementById("websocket");
  document.getElementById("websocket-words").textContent = description.description;
  for (const direction of ["ClientMessage", "ServerMessage"]) {
    const { title, oneOf, anyOf } = description.$defs[direction];
    section.append(made("h3", title));
    for (const { $ref } of oneOf ?? anyOf) {
      const schema = description.$defs[$ref.split("/").at(-1)];
      const type = schema.properties.type;
      section.append(shown(schema, type.enum ?? [type.const]));
    }
  }
}

applyTheme();
likesDark.addEventListener("change", applyTheme);
globalThis.SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#http",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: -1,
  filter: true,
  validatorUrl: null,
  onComplete() {
    const token = keptIn("sessionStorage", "token"); // who came here in the tab of the page is signed in
    if (token) this.ui?.preauthorizeApiKey("HTTPBearer", token);
  },
});
listMessages();
