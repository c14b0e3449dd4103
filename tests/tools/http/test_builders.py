"""The bodies that builders make, as their worked examples say."""

from typing import Any, ClassVar

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.loopback_api import loopback_api
from tests.tools.http.test_fetch import LyingNames
from tools.http import builders
from tools.http.addresses import AddressRefused, AddressRules
from tools.http.builders import About, BodyBuilder, BuilderFailed, BuilderOptions, parse_builder
from tools.http.checked_transport import CheckedTransport
from tools.http.problems import BadText

READY = "2025-01-15T19:30:00Z"
SIX_IN_PARIS = 1736960400000  # 2025-01-15 18:00 in Europe/Paris
AGENT = {"id": "a1", "timezone": "Europe/Paris"}
ABOUT = About(agent=AGENT, caller_phone="+33611111111", call_id="ours", now_ms=SIX_IN_PARIS)
MENU = {
    "3": {"id": "uuid-pizza-marg", "name": "Margherita"},
    "7": {"id": "uuid-big", "name": "Grande"},
}
PIZZA = {
    "id": 3,
    "quantity": 1,
    "unit_price": 9.50,
    "selected_options": [{"name": "Taille", "choice": "Grande", "extra_price": 2}],
}


def order(
    args: dict[str, Any], ctx: dict[str, Any] | None = None, **options: str
) -> dict[str, Any]:
    builder = parse_builder({"name": "confirm_order", "options": options})
    return builder.body(args, {"item_map": MENU} if ctx is None else ctx, None, ABOUT)


def test_order_of_the_worked_example() -> None:
    ctx = {
        "item_map": MENU,
        "last_availability_check": {"estimatedTimeISO": READY},
        "call_id": "c1",
    }
    body = order({"items": [PIZZA], "order_type": "pickup", "customer_name": "Jean"}, ctx)
    assert body == {
        "restaurantId": "a1",
        "callId": "c1",
        "customerPhone": "+33611111111",
        "customerName": "Jean",
        "total": 11.50,
        "orderType": "pickup",
        "estimatedReadyAt": READY,
        "items": [
            {
                "menuItemId": "uuid-pizza-marg",
                "name": "Margherita",
                "quantity": 1,
                "unitPrice": 9.50,
                "totalPrice": 9.50,
                "selectedOptions": [{"name": "Taille", "choice": "Grande", "extra_price": 2}],
            }
        ],
    }
    assert type(body["items"][0]["selectedOptions"][0]["extra_price"]) is int


def test_choice_is_looked_up_by_its_number() -> None:
    item = PIZZA | {"selected_options": [{"name": "Taille", "choice_id": 7}]}
    assert order({"items": [item]})["items"][0]["selectedOptions"] == [
        {"name": "Taille", "choice": "Grande"}
    ]


def test_fee_counts_for_delivery_only_and_a_total_said_is_believed() -> None:
    ctx = {
        "item_map": MENU,
        "last_availability_check": {"deliveryFee": 2.30},
        "avg_prep_time_min": 25,
    }
    three = PIZZA | {"quantity": 3}
    assert order({"items": [three], "order_type": "delivery"}, ctx)["total"] == 36.80
    pickup = order({"items": [three], "order_type": "pickup"}, ctx)
    assert (pickup["total"], pickup["estimatedReadyAt"]) == (34.50, "2025-01-15T17:25:00Z")
    assert order({"items": [three], "total": 30}, ctx)["total"] == 30


def test_a_menu_may_stand_elsewhere() -> None:
    builder = parse_builder({"name": "confirm_order", "options": {"item_map": "session.menu"}})
    body = builder.body({"items": [PIZZA]}, {}, {"menu": MENU}, ABOUT)
    assert body["items"][0]["menuItemId"] == "uuid-pizza-marg"


@pytest.mark.parametrize(
    ("items", "named"),
    [
        ([PIZZA | {"id": 99}], "'99'"),
        (
            [PIZZA, PIZZA | {"selected_options": [{"name": "T", "choice_id": 41}]}],
            "items.1.selected_options.0",
        ),
        ([PIZZA | {"unit_price": "cheap"}], "items.0.unit_price"),
        ([PIZZA | {"unit_price": float("inf")}], "items.0.unit_price"),
        ([PIZZA | {"quantity": 0}], "items.0.quantity"),
        ([PIZZA | {"quantity": True}], "items.0.quantity"),
        (["3"], "items"),
        ([], "items"),
        (None, "items"),
    ],
)
def test_wrong_item_is_named(items: Any, named: str) -> None:
    with pytest.raises(BuilderFailed, match=named):
        order({"items": items})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)
ITEM = st.dictionaries(st.sampled_from([*PIZZA, "extra"]), JSON | st.just(3), max_size=5)


@given(
    st.sampled_from(["confirm_order", "confirm_reservation"]),
    st.dictionaries(
        st.sampled_from(["total", "order_type", "reservation_time", "customer_phone"]), JSON
    ),
    st.lists(ITEM, max_size=2) | JSON,
    JSON,
)
def test_builders_fail_in_one_way_only_and_change_nothing(
    name: str, args: dict[str, Any], items: Any, rest: Any
) -> None:
    given_args = {**args, "items": items}
    ctx = {"item_map": MENU, "last_availability_check": rest}
    before = repr((given_args, ctx))
    try:
        body = parse_builder(name).body(given_args, ctx, rest, ABOUT)
    except BuilderFailed:
        pass
    else:
        assert None not in body.values()
    assert repr((given_args, ctx)) == before


RESERVED = {
    "customer_name": "Jean",
    "customer_phone": "+33612345678",
    "party_size": 4,
    "reservation_time": "20:00",
    "seating_preference": "window",
    "notes": "Anniversaire",
}


def reserve(
    now_ms: int, clock: str = "20:00", ctx: dict[str, Any] | None = None, **options: str
) -> Any:
    builder = parse_builder({"name": "confirm_reservation", "options": options})
    about = About(agent=AGENT, caller_phone=None, call_id="ours", now_ms=now_ms)
    return builder.body(RESERVED | {"reservation_time": clock}, ctx or {}, None, about)


def test_reservation_of_the_worked_example() -> None:
    said = {"last_availability_check": {"estimatedTimeISO": "2025-01-15T20:00:00Z"}}
    assert reserve(SIX_IN_PARIS, ctx=said) == {
        "restaurantId": "a1",
        "customerName": "Jean",
        "customerPhone": "+33612345678",
        "partySize": 4,
        "reservationTime": "2025-01-15T20:00:00Z",
        "status": "confirmed",
        "seatingPreference": "window",
        "notes": "Anniversaire",
    }
    assert reserve(SIX_IN_PARIS)["reservationTime"] == "2025-01-15T19:00:00Z"
    assert reserve(SIX_IN_PARIS + 3 * 3_600_000)["reservationTime"] == "2025-01-16T19:00:00Z"


def test_zone_of_the_builder_comes_before_the_agents() -> None:
    assert reserve(SIX_IN_PARIS, timezone="UTC")["reservationTime"] == "2025-01-15T20:00:00Z"


def test_clock_changes() -> None:
    spring_night = 1743289200000  # 2025-03-30 00:00 in Paris; 02:30 does not exist that night
    assert reserve(spring_night, "02:30")["reservationTime"] == "2025-03-30T01:30:00Z"
    autumn_night = 1761429600000  # 2025-10-26 00:00 in Paris; 02:30 comes twice
    assert reserve(autumn_night, "02:30")["reservationTime"] == "2025-10-26T00:30:00Z"


@pytest.mark.parametrize("clock", ["", "25:00", "8pm", "20:00:00", "20h", None])
def test_no_time_of_day_is_refused(clock: Any) -> None:
    with pytest.raises(BuilderFailed, match="reservation_time"):
        reserve(SIX_IN_PARIS, clock)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("no_such", "unknown_builder"),
        ({"options": {}}, "unknown_builder"),
        ({"name": "confirm_order", "options": {"itemmap": "ctx.m"}}, "wrong_type"),
        ({"name": "confirm_order", "options": {"item_map": "secret.m"}}, "wrong_type"),
        ({"name": "confirm_reservation", "options": {"timezone": "Mars/Olympus"}}, "wrong_type"),
        (
            {"name": "confirm_reservation", "options": {"timezone": "../../etc/passwd"}},
            "wrong_type",
        ),
    ],
)
def test_wrong_builder_is_refused(value: Any, code: str) -> None:
    with pytest.raises(BadText) as refused:
        parse_builder(value)
    assert refused.value.code == code
    assert refused.value.allowed


class Nothing(BuilderOptions):
    """No options."""


def crash(args: Any, *_: Any) -> dict[str, Any]:
    args["items"][0].clear()
    raise KeyError("secret detail")


def test_strangers_builder_gets_copies_and_its_crash_tells_nothing() -> None:
    builder = BodyBuilder(name="crash", build=crash, options=Nothing())
    args = {"items": [PIZZA]}
    with pytest.raises(BuilderFailed) as failed:
        builder.body(args, {}, None, ABOUT)
    assert "secret" not in str(failed.value)
    assert args["items"] == [PIZZA]
    assert PIZZA["id"] == 3


class Entry:
    """An installed entry point."""

    loads: ClassVar[int] = 0

    def load(self) -> Any:
        Entry.loads += 1
        return (lambda *_: {"made": True, "empty": None}), Nothing


def test_installed_builder_is_loaded_only_when_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builders, "_registered", dict(builders._registered))
    monkeypatch.setattr(
        builders, "entry_points", lambda *, group, name: [Entry()] if name == "theirs" else []
    )
    builders.load_builders([])
    assert Entry.loads == 0
    builders.load_builders(["theirs"])
    assert parse_builder("theirs").body({}, {}, None, ABOUT) == {"made": True}
    with pytest.raises(ValueError, match="not_there"):
        builders.load_builders(["not_there"])
    with pytest.raises(ValueError, match="confirm_order"):
        builders.register_builder("confirm_order", crash, Nothing)


async def test_each_request_goes_to_an_address_that_was_checked_for_its_name() -> None:
    async with loopback_api() as api:
        names = LyingNames(["127.0.0.1"], ["10.0.0.9"])
        rules = AddressRules(allow=(f"127.0.0.1:{api.port}",), resolver=names)
        async with httpx2.AsyncClient(transport=CheckedTransport(rules), trust_env=False) as client:
            await client.get(f"http://rebound.example:{api.port}/first")
            assert api.arrived[0].headers["host"] == f"rebound.example:{api.port}"
            with pytest.raises(AddressRefused):
                await client.get(f"http://rebound.example:{api.port}/second")
        assert [each.line for each in api.arrived] == ["GET /first"]
