"""The completion for fish: one `complete` line an option, devices by globs; no process is started."""

from __future__ import annotations

from .commands import VERBS, Option, Takes, every_option, verbs

_FRAME = r"""# Completion of hotplugctl for fish. Made from the command line itself: python -m tests.generate

function __hotplugctl_in --description 'Is the verb one of these? Options without a verb are those of list'
    for word in (commandline -opc)[2..-1]
        if contains -- $word %(verbs)s
            contains -- $word $argv
            return
        end
    end
    contains -- list $argv
end

function __hotplugctl_no_verb
    for word in (commandline -opc)[2..-1]
        contains -- $word %(verbs)s; and return 1
    end
    return 0
end

function __hotplugctl_root --description 'The machine looked at, empty for this one'
    set -l root $HOTPLUGCTL_ROOT
    set -l before
    for word in (commandline -opc)[2..-1]
        test "$before" = --root; and set root $word
        string match -q -- '--root=*' $word; and set root (string replace -- --root= '' $word)
        set before $word
    end
    string replace -r '/$' '' -- (string replace -r '^~/' "$HOME/" -- "$root")
end

function __hotplugctl_slots --argument-names before
    set -l root (__hotplugctl_root)
    for path in $root/sys/bus/pci/slots/*/
        printf '%%s%%s\tslot\n' $before (string replace -r '.*/(.+)/$' '$1' -- $path)
    end
end

function __hotplugctl_devices
    set -l root (__hotplugctl_root)
    printf 'all\tevery accelerator\n'
    __hotplugctl_slots slot:
    for path in $root/sys/bus/pci/devices/*
        set -l class ''
        test -r $path/class; and read class <$path/class
        switch $class
            case '0x12*' '0x03*'
                printf '%%s\taccelerator\n' (string replace -r '.*/' '' -- $path)
        end
    end
end

complete -c hotplugctl -f
complete -c hotplugctl -n __hotplugctl_no_verb -f -a '%(verbs)s'
complete -c hotplugctl -n 'not __hotplugctl_no_verb' -f -a '(__hotplugctl_devices)'
complete -c hotplugctl -n 'not __hotplugctl_no_verb; and string match -q "/*" -- (commandline -ct)' -F
%(options)s
"""


def text() -> str:
    """The file."""
    every_option()
    shown: dict[Option, list[str]] = {}
    for verb in verbs():
        for option in verb.options:
            shown.setdefault(option, []).append(verb.name)
    return _FRAME % {
        "verbs": " ".join(VERBS), "options": "\n".join(_line(option, names) for option, names in shown.items())
    }


def _line(option: Option, names: list[str]) -> str:
    parts = ["complete -c hotplugctl"]
    if len(names) < len(VERBS):
        parts.append(f"-n '__hotplugctl_in {' '.join(names)}'")
    parts += [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    words = " ".join(option.words)
    parts += {
        Takes.NOTHING: [],
        Takes.WORD: [f"-x -a '{words}'"],
        Takes.WORDS: [f"-x -a '(__fish_append , {words})'"],
        Takes.FILE: ["-r -F", *([f"-a '{words}'"] if words else [])],
        Takes.SLOT: ["-x -a '(__hotplugctl_slots \"\")'"],
        Takes.COMMAND: ["-x -a '(__fish_complete_command)'"],
        Takes.FREE: ["-x"],
    }[option.takes]
    return " ".join([*parts, f"-d {_quoted(option.help)}"])


def _quoted(words: str) -> str:
    inner = words.rstrip(".").replace("\\", "\\\\").replace("'", "\\'")
    return f"'{inner}'"
