"""The completion for bash: words by table, devices by shell globs; no process but for file and command names."""

from __future__ import annotations

from .commands import VERBS, Option, Takes, every_option, verbs

_FRAME = r'''# Completion of hotplugctl for bash. Made from the command line itself: python -m tests.generate

# Each function adds to COMPREPLY what begins with $cur; $root is the machine looked at (--root), empty for this one.

_hotplugctl_offer() {
    local word
    for word in "$@"; do
        [[ $word == "$cur"* ]] && COMPREPLY+=("$word")
    done
}

_hotplugctl_list() {
    local word before=${cur%"${cur##*,}"}
    compopt -o nospace 2>/dev/null
    for word in "$@"; do
        _hotplugctl_offer "$before$word"
    done
}

_hotplugctl_names() {  # $1: what compgen names, -f files or -c commands
    local name
    [[ $1 == -f ]] && compopt -o filenames 2>/dev/null
    while IFS= read -r name; do
        COMPREPLY+=("$name")
    done < <(compgen "$1" -- "$cur")
}

_hotplugctl_slots() {  # $1: what stands before each name
    local path
    for path in "$root"/sys/bus/pci/slots/*/; do
        [[ -d $path ]] || continue
        path=${path%/}
        _hotplugctl_offer "$1${path##*/}"
    done
}

_hotplugctl_devices() {
    local path class address
    if [[ $cur == /* ]]; then
        _hotplugctl_names -f
        return
    fi
    _hotplugctl_offer all
    _hotplugctl_slots slot:
    for path in "$root"/sys/bus/pci/devices/*; do
        read -r class 2>/dev/null <"$path/class" || continue
        [[ $class == 0x12* || $class == 0x03* ]] || continue
        address=${path##*/}
        if [[ $address == "$cur"* ]]; then
            COMPREPLY+=("$address")
        else
            _hotplugctl_offer "${address#0000:}"
        fi
    done
}

_hotplugctl() {
    local cur word option= verb= root=${HOTPLUGCTL_ROOT-} n before
    local -a words=()
    COMPREPLY=()
    # bash takes : and = for the ends of words; slot:3 and --state=ready are one word here.
    for ((n = 0; n <= COMP_CWORD; n++)); do
        word=${COMP_WORDS[n]}
        if ((n > 1)) && [[ $word == [:=]* || ${words[-1]} == *[:=] ]]; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
    done
    cur=${words[-1]}
    for ((n = 1; n < ${#words[@]} - 1; n++)); do
        word=${words[n]}
        case $word in
            %(verbs_or)s) verb=${verb:-$word} ;;
            --root=*) root=${word#*=} ;;
        esac
        [[ $option == --root ]] && root=$word
        option=$word
    done
    root=${root/#\~\//$HOME/}
    root=${root%%/}
    if [[ $cur == --*=* ]]; then
        option=${cur%%%%=*}
        cur=${cur#*=}
    fi
    case $option in
%(values)s
        *)
            if [[ $cur == -* ]]; then
                case ${verb:-list} in
%(options)s
                esac
            elif [[ -z $verb ]]; then
                _hotplugctl_offer %(verbs)s
            else
                _hotplugctl_devices
            fi
            ;;
    esac
    # What stands before the last : is on the line already, and bash would write it twice.
    if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then
        before=${cur%%"${cur##*:}"}
        for n in "${!COMPREPLY[@]}"; do
            COMPREPLY[n]=${COMPREPLY[n]#"$before"}
        done
    fi
}

complete -F _hotplugctl hotplugctl
'''


def text() -> str:
    """The file."""
    head, _, body = _FRAME.partition("_hotplugctl() {")
    filled = body % {
        "verbs": " ".join(VERBS), "verbs_or": "|".join(VERBS),
        "values": "\n".join(_values()),
        "options": "\n".join(
            f"{' ' * 20}{verb.name}) _hotplugctl_offer {' '.join(_names(verb.options))} ;;" for verb in verbs()
        ),
    }
    return f"{head}_hotplugctl() {{{filled}"


def _names(options: tuple[Option, ...]) -> list[str]:
    return [name for option in options for name in reversed(option.names)]


def _values() -> list[str]:
    """A line for all options that offer the same."""
    found: dict[str, list[str]] = {}
    for option in every_option():
        if option.takes is not Takes.NOTHING:
            found.setdefault(_offer(option), []).extend(reversed(option.names))
    return [f"        {'|'.join(names)}) {offer} ;;" for offer, names in found.items()]


def _offer(option: Option) -> str:
    words = " ".join(option.words)
    offers = {
        Takes.WORD: f"_hotplugctl_offer {words}",
        Takes.WORDS: f"_hotplugctl_list {words}",
        Takes.FILE: (f"_hotplugctl_offer {words}; " if words else "") + "_hotplugctl_names -f",
        Takes.SLOT: "_hotplugctl_slots",
        Takes.COMMAND: "_hotplugctl_names -c",
        Takes.FREE: ":",
    }
    return offers[option.takes]
