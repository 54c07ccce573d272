"""The completion for zsh: the options of each verb as `_arguments` has them, devices by globs."""

from __future__ import annotations

import re

from .commands import VERBS, Option, Takes, Verb, every_option, verbs

_FRAME = r"""#compdef hotplugctl
# Completion of hotplugctl for zsh. Made from the command line itself: python -m tests.generate

# $root is the machine looked at (--root), empty for this one.

_hotplugctl_slots() {
    local -a names=( $root/sys/bus/pci/slots/*(N:t) )
    (( $#names )) && compadd "$@" -- $names
}

_hotplugctl_devices() {
    local path class
    local -a names=( $root/sys/bus/pci/slots/*(N:t) ) found=( all )
    (( $#names )) && found+=( slot:$^names )
    for path in $root/sys/bus/pci/devices/*(N); do
        read -r class 2>/dev/null <$path/class || continue
        [[ $class == 0x(12|03)* ]] && found+=( ${path:t} )
    done
    compadd "$@" -- $found
    [[ $PREFIX == /* ]] && _files
    return 0
}

_hotplugctl_machines() {
    _alternative 'machines:captured machine:(demo)' 'files:file:_files'
}

_hotplugctl_verbs() {
    local -a found=(
%(verbs)s
    )
    _describe verb found
}

_hotplugctl() {
    local verb word before root=${HOTPLUGCTL_ROOT-}
    local -i n
    for (( n = 2; n < CURRENT; n++ )); do
        word=$words[n]
        [[ $before == --root ]] && root=${word/#\~\//$HOME/}
        [[ $word == --root=* ]] && root=${${word#*=}/#\~\//$HOME/}
        before=$word
        if [[ -z $verb && $word == (%(verbs_or)s) ]]; then
            verb=$word
            words[n]=()
            (( n--, CURRENT-- ))
        fi
    done
    root=${root%%/}
    case $verb in
%(cases)s
    esac
}

_hotplugctl "$@"
"""


def text() -> str:
    """The file."""
    every_option()
    cases = [_case(verb.name, verb, "'*:device:_hotplugctl_devices'") for verb in verbs()]
    bare = _case("''", next(verb for verb in verbs() if verb.name == "list"), "'1:verb:_hotplugctl_verbs'")
    return _FRAME % {
        "verbs_or": "|".join(VERBS), "cases": "\n".join([bare, *cases]),
        "verbs": "\n".join(f"        '{verb.name}:{_plain(verb.summary)}'" for verb in verbs()),
    }


def _case(name: str, verb: Verb, rest: str) -> str:
    specs = [*(_spec(option) for option in verb.options), rest]
    inner = " \\\n".join(f"                {spec}" for spec in specs)
    return f"        {name})\n            _arguments -s -S : \\\n{inner}\n            ;;"


def _spec(option: Option) -> str:
    """`'(-o --output)'{-o,--output=}'[help]:form:(words)'`, as zshcompsys(1) has it."""
    valued = option.takes is not Takes.NOTHING
    names = [f"{name}=" if valued and name.startswith("--") else name for name in option.names]
    star = "'*'" if option.repeatable else ""
    several = f"'({' '.join(option.names)})'{{{','.join(names)}}}" if len(names) > 1 else f"{star}{names[0]}"
    return f"{several}'[{_plain(option.help)}]{_action(option)}'"


def _action(option: Option) -> str:
    if option.takes is Takes.NOTHING:
        return ""
    words = " ".join(option.words)
    action = {
        Takes.WORD: f"({words})",
        Takes.WORDS: f"_sequence compadd - {words}",
        Takes.FILE: "_hotplugctl_machines" if words else "_files",
        Takes.SLOT: "_hotplugctl_slots",
        Takes.COMMAND: "_command_names -e",
        Takes.FREE: "",
    }[option.takes]
    return f":{re.sub(r'[^A-Za-z, ]', ' ', option.metavar).strip() or 'value'}:{action}"


def _plain(words: str) -> str:
    """Help for a spec: brackets, colons and quotes mean something there."""
    return re.sub(r"([\[\]:\\])", r"\\\1", words.rstrip(".")).replace("'", "'\\''")
