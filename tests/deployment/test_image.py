"""The Dockerfile takes all that the wheel is made of, and runs the service as nobody of rights."""

from __future__ import annotations

import tomllib

from tests.deployment.containers import ROOT, instructions

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_room_and_file_of_the_wheel_is_copied_into_the_image() -> None:
    copied = {word for words in instructions("COPY") for word in words[:-1] if not word.startswith("--")}
    rooms = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    files = [PROJECT["project"]["readme"], *PROJECT["project"]["license-files"], "constraints.txt"]
    assert {*rooms, *files, "pyproject.toml"} <= copied
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert ignored[0] == "*"
    assert {word[1:] for word in ignored if word.startswith("!")} == copied - {"/opt/nodius"}


def test_the_image_runs_the_service_as_a_user_of_its_own_in_a_folder_of_theirs() -> None:
    (user,), (folder,) = instructions("USER"), instructions("WORKDIR")[-1:]
    made = next(words for words in instructions("RUN") if words[0] == "useradd")
    assert made[made.index("--uid") + 1] == user[0]  # a number: orchestrators see that it is not root
    assert made[made.index("--home-dir") + 1] == folder[0]
    assert instructions("ENTRYPOINT") == [['["nodius"]']]
