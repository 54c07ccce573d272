# Completion of hotplugctl for bash. Made from the command line itself: python -m tests.generate

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
            list|probe|watch|drain|diagnose) verb=${verb:-$word} ;;
            --root=*) root=${word#*=} ;;
        esac
        [[ $option == --root ]] && root=$word
        option=$word
    done
    root=${root/#\~\//$HOME/}
    root=${root%/}
    if [[ $cur == --*=* ]]; then
        option=${cur%%=*}
        cur=${cur#*=}
    fi
    case $option in
        --columns) _hotplugctl_list address slot printed model state rung driver link nodes numa iommu profile vendor ids class serial uuid power errors labels remarks ;;
        --expect|--save-expect|--config|--capture|--record|--replay|--metrics-file|--labels-file) _hotplugctl_names -f ;;
        --vendor) _hotplugctl_offer amd ascend coral gaudi generic hailo intel_npu nvidia qualcomm tenstorrent xdna ;;
        --state|--until) _hotplugctl_offer absent detected identified mapped bound initialised ready draining drained removed failed ;;
        --slot) _hotplugctl_slots ;;
        --numa|--label|--fits|--count|--timeout|--for|--sink|--batch|--grace|--reason|--since) : ;;
        --output|-o) _hotplugctl_offer auto table plain markdown tsv json jsonl html ;;
        --root|--from) _hotplugctl_offer demo; _hotplugctl_names -f ;;
        --color) _hotplugctl_offer auto always never ;;
        --locate) _hotplugctl_offer on off ;;
        --exec) _hotplugctl_names -c ;;
        --source) _hotplugctl_offer auto udev kernel ;;
        --scheduler) _hotplugctl_offer auto none slurm kubernetes ;;
        --scope) _hotplugctl_offer device node ;;
        --fail-on) _hotplugctl_offer critical error warning info ;;
        --explain) _hotplugctl_offer aer_uncorrectable_unrecovered bar_claimed_by_other bar_space_exhausted bus_numbers_exhausted callback_blocks_loop container_cgroup_lost container_device_not_visible dev_node_missing dev_node_permission device_boot_timeout device_count_not_refreshed device_heartbeat_lost device_in_use device_inaccessible device_occupied device_out_of_memory dpc_containment driver_hung_on_removal driver_init_failed driver_lib_version_mismatch driver_not_loaded event_callback_exception fabric_not_ready firmware_incompatible firmware_missing ghost_device health_check_failed hotplug_command_timeout hotplug_request_ignored hotplug_thread_dead iommu_disabled iommu_dma_fault irq_vectors_unavailable latch_open link_downtrained link_lost link_training_failed listener_no_events module_abi_mismatch module_signature_rejected no_free_hotplug_slot none port_asleep_no_event presence_flapping rebar_failed reset_hotplug_race resource_limit runtime_package_mismatch runtime_stale_after_hotplug runtime_too_old scheduled_before_ready slot_empty slot_power_fault slot_powered_off stale_device_handle surprise_removal uevent_overflow vfio_group_not_viable visible_devices_invalid wrong_driver_bound ;;
        *)
            if [[ $cur == -* ]]; then
                case ${verb:-list} in
                    list) _hotplugctl_offer --slots --columns --wide --all-pci --handshake --expect --save-expect --show-config --vendor --state --slot --numa --label --output -o --json --root --config --redact --color --quiet -q --verbose -v --debug --version --help -h ;;
                    probe) _hotplugctl_offer --capture --keep-identifiers --handshake --hex --fits --locate --output -o --json --root --config --redact --color --quiet -q --verbose -v --debug --version --help -h ;;
                    watch) _hotplugctl_offer --until --count --timeout --for --exec --sink --batch --record --replay --source --metrics-file --labels-file --vendor --state --slot --numa --label --output -o --json --root --config --redact --color --quiet -q --verbose -v --debug --version --help -h ;;
                    drain) _hotplugctl_offer --dry-run --yes --timeout --grace --stop-holders --scheduler --scope --remove --power-off --group --replace --reason --undo --status --vendor --state --slot --numa --label --output -o --json --root --config --redact --color --quiet -q --verbose -v --debug --version --help -h ;;
                    diagnose) _hotplugctl_offer --from --since --fail-on --explain --capture --keep-identifiers --vendor --state --slot --numa --label --output -o --json --root --config --redact --color --quiet -q --verbose -v --debug --version --help -h ;;
                esac
            elif [[ -z $verb ]]; then
                _hotplugctl_offer list probe watch drain diagnose
            else
                _hotplugctl_devices
            fi
            ;;
    esac
    # What stands before the last : is on the line already, and bash would write it twice.
    if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then
        before=${cur%"${cur##*:}"}
        for n in "${!COMPREPLY[@]}"; do
            COMPREPLY[n]=${COMPREPLY[n]#"$before"}
        done
    fi
}

complete -F _hotplugctl hotplugctl
