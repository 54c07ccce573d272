"""hotplugctl-VERB(1), one page a verb."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from .commands import Option, Takes, Verb, verb
from .prose import FILTERS, VERB_PROSE, WRITTEN
from .roff import Page

FILTER_NAMES = ("--vendor", "--state", "--slot", "--numa", "--label")


def maker(name: str) -> Callable[[], str]:
    """What makes the text of that verb's page."""
    return partial(text, name)


def text(name: str) -> str:
    """The page of one verb."""
    found, prose = verb(name), VERB_PROSE[name]
    page = Page(f"hotplugctl-{name}", 1, found.summary[0].lower() + found.summary[1:].rstrip("."))
    page.section("synopsis")
    page.synopsis(f"hotplugctl {name}", [_device(found), *_brief(found)])
    page.section("description")
    page.text(*prose.description)
    page.text("How a *DEVICE* is named is in `hotplugctl`(1).")
    page.section("options")
    options(page, (o for o in found.options if not o.common and o.long not in FILTER_NAMES))
    filters = [option for option in found.options if option.long in FILTER_NAMES]
    if filters:
        page.sub("Filters")
        page.text(FILTERS)
        options(page, filters)
    page.sub("Common options")
    options(page, (option for option in found.options if option.common))
    page.exit_status()
    page.examples(prose.examples)
    page.see_also(*prose.see_also)
    return str(page)


def options(page: Page, found: Iterable[Option]) -> None:
    """Each option with what it does and how its value is written."""
    for option in found:
        metavar = f" *{option.metavar}*" if option.metavar and option.takes is not Takes.WORD else ""
        if option.takes is Takes.WORD:
            metavar = f" {_words(option)}"
        more = [WRITTEN[option.metavar]] if option.metavar in WRITTEN else []
        if option.takes is Takes.WORDS:
            more.append(f"One or more of {', '.join(f'`{word}`' for word in option.words)}.")
        if option.default and option.default != "/":
            more.append(f"The default is `{option.default}`.")
        if option.envvar:
            more.append(f"Environment: `{option.envvar}`.")
        names = ", ".join(f"`{name}`" for name in option.names)
        page.item(names + metavar, " ".join([option.help, *more]))


def _words(option: Option) -> str:
    """`auto|udev|kernel` in full where it is that in --help too, else its metavar."""
    if "|" in option.metavar and option.metavar.islower():
        return "|".join(f"`{word}`" for word in option.words)
    return f"*{option.metavar}*"


def _device(found: Verb) -> str:
    return "*DEVICE*" if found.devices == "DEVICE" else "[*DEVICE* ...]"


def _brief(found: Verb) -> list[str]:
    """The verb's own options for the synopsis; the common ones and the filters are in OPTIONS."""
    own = [o for o in found.options if not o.common and o.long not in FILTER_NAMES]
    parts = []
    for option in own:
        value = f" {_words(option) if option.takes is Takes.WORD else f'*{option.metavar}*'}" if option.metavar else ""
        parts.append(f"[`{option.long}`{value}]" + (" ..." if option.repeatable else ""))
    return [*parts, "[*option* ...]"]
