"""Out of service without losing work, and back.

`survey` looks and gives a Site; `plan` and `undo` decide, and are pure; `there`, `back` and `waiting` do the steps;
`run` and `undoing` go round: look, plan, first step, look again, until a fresh plan is empty. `record` survives a crash
and a reboot.
"""
