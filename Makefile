# Two commands on a fresh machine (Debian 12, python3, make, git): make demo, make test.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: help demo test quick lab bench soak generate packages clean

help:
	@echo "make demo      set up, and diagnose a failed hot-plug on the captured machine that ships"
	@echo "make test      set up, and pass every test, the lab's real kernel included"
	@echo "make quick     the tests without the lab"
	@echo "make lab       a shell in a guest with real PCIe hot-plug, and cards to plug, pull and break"
	@echo "make bench     figures: events, latency, memory"
	@echo "make soak      the lab with long counts"
	@echo "make generate  write what is generated: man pages, completions, schemas, compiled rules"

# The main job, on a captured machine: which accelerators are there, how did they come up, and why did one fail?
demo: $(STAMP)
	$(BIN)/hotplugctl list --root demo
	@echo
	$(BIN)/hotplugctl watch --replay demo
	@echo
	@$(BIN)/hotplugctl diagnose --from demo; code=$$?; \
	  echo; echo "(exit $$code: a fault was found)"; test $$code -eq 1

test: packages $(STAMP)
	HOTPLUGCTL_REQUIRE_LAB=$${HOTPLUGCTL_REQUIRE_LAB:-$(CAN_INSTALL)} $(BIN)/python -m pytest -n 2 --dist loadgroup

quick: $(STAMP)
	$(BIN)/python -m pytest -m "not lab"

lab: packages $(STAMP)
	$(BIN)/python -m tests.lab

# Figures, asserted nowhere: machines are noisy. Needs root and udevadm.
bench: packages $(STAMP)
	$(BIN)/python -m tests.bench
	@echo
	$(BIN)/python -m tests.bench.drain

# The long counts of the lab.
soak: packages $(STAMP)
	HOTPLUGCTL_CYCLES=100 HOTPLUGCTL_ROUNDS=50 HOTPLUGCTL_REQUIRE_LAB=1 $(BIN)/python -m pytest -s tests/lab

generate: $(STAMP)
	$(BIN)/python -m tests.generate

# The Debian packages of the lab and of the tests; installed only by root, and only where something is missing.
CAN_INSTALL := $(shell test "$$(id -u)" = 0 && command -v apt-get >/dev/null && echo 1)
TEST_PACKAGES := chromium fish groff-base man-db pciutils slurm-client slurm-wlm slurmctld slurmd tmux zsh

packages:
	@missing=$$(sh tests/missing-packages $(TEST_PACKAGES)); \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ -n "$(CAN_INSTALL)" ]; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; \
	else \
	  echo "not root: tests that need these Debian packages are left out and say so: $$missing"; \
	fi

$(STAMP): pyproject.toml
	@$(PYTHON) -c "import ensurepip" 2>/dev/null || { \
	  if [ -n "$(CAN_INSTALL)" ]; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv; \
	  else echo "python3-venv is missing: apt-get install python3-venv" >&2; exit 1; fi; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test,scan]"
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache dist
