# Completion of hotplugctl for fish. Made from the command line itself: python -m tests.generate

function __hotplugctl_in --description 'Is the verb one of these? Options without a verb are those of list'
    for word in (commandline -opc)[2..-1]
        if contains -- $word list probe watch drain diagnose
            contains -- $word $argv
            return
        end
    end
    contains -- list $argv
end

function __hotplugctl_no_verb
    for word in (commandline -opc)[2..-1]
        contains -- $word list probe watch drain diagnose; and return 1
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
        printf '%s%s\tslot\n' $before (string replace -r '.*/(.+)/$' '$1' -- $path)
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
                printf '%s\taccelerator\n' (string replace -r '.*/' '' -- $path)
        end
    end
end

complete -c hotplugctl -f
complete -c hotplugctl -n __hotplugctl_no_verb -f -a 'list probe watch drain diagnose'
complete -c hotplugctl -n 'not __hotplugctl_no_verb' -f -a '(__hotplugctl_devices)'
complete -c hotplugctl -n 'not __hotplugctl_no_verb; and string match -q "/*" -- (commandline -ct)' -F
complete -c hotplugctl -n '__hotplugctl_in list' -l slots -d 'The slots, filled and empty, instead of devices'
complete -c hotplugctl -n '__hotplugctl_in list' -l columns -x -a '(__fish_append , address slot printed model state rung driver link nodes numa iommu profile vendor ids class serial uuid power errors labels remarks)' -d 'Which columns to show'
complete -c hotplugctl -n '__hotplugctl_in list' -l wide -d 'All columns, and virtual functions too'
complete -c hotplugctl -n '__hotplugctl_in list' -l all-pci -d 'Every PCI function but bridges'
complete -c hotplugctl -n '__hotplugctl_in list' -l handshake -d 'Run each card\'s health check first'
complete -c hotplugctl -n '__hotplugctl_in list' -l expect -r -F -d 'Compare with what should be here'
complete -c hotplugctl -n '__hotplugctl_in list' -l save-expect -r -F -d 'Write what is here as that file'
complete -c hotplugctl -n '__hotplugctl_in list' -l show-config -d 'The settings, and where each is from'
complete -c hotplugctl -n '__hotplugctl_in list watch drain diagnose' -l vendor -x -a 'amd ascend coral gaudi generic hailo intel_npu nvidia qualcomm tenstorrent xdna' -d 'Only this vendor profile (repeatable)'
complete -c hotplugctl -n '__hotplugctl_in list watch drain diagnose' -l state -x -a 'absent detected identified mapped bound initialised ready draining drained removed failed' -d 'Only devices in this state (repeatable)'
complete -c hotplugctl -n '__hotplugctl_in list watch drain diagnose' -l slot -x -a '(__hotplugctl_slots "")' -d 'Only this slot (repeatable)'
complete -c hotplugctl -n '__hotplugctl_in list watch drain diagnose' -l numa -x -d 'Only this NUMA node (repeatable)'
complete -c hotplugctl -n '__hotplugctl_in list watch drain diagnose' -l label -x -d 'Only with this label (repeatable)'
complete -c hotplugctl -s o -l output -x -a 'auto table plain markdown tsv json jsonl html' -d 'Form of the result; auto is a table at a terminal, plain when piped; html a page (diagnose)'
complete -c hotplugctl -l json -d 'The same as -o json'
complete -c hotplugctl -l root -r -F -a 'demo' -d 'Look at a bundle, a sosreport, a tree or an lspci -xxxx dump instead of this machine; demo ships'
complete -c hotplugctl -l config -r -F -d 'Configuration to use instead of the usual'
complete -c hotplugctl -l redact -d 'Serials, UUIDs and host names as stable aliases'
complete -c hotplugctl -l color -x -a 'auto always never' -d 'When to colour'
complete -c hotplugctl -s q -l quiet -d 'Errors only on stderr'
complete -c hotplugctl -s v -l verbose -d 'More on stderr'
complete -c hotplugctl -l debug -d 'Tracebacks'
complete -c hotplugctl -l version -d 'Version, and exit'
complete -c hotplugctl -s h -l help -d 'Show this message and exit'
complete -c hotplugctl -n '__hotplugctl_in probe diagnose' -l capture -r -F -d 'Also write what was read as a bundle: a directory, or a .tar.gz file'
complete -c hotplugctl -n '__hotplugctl_in probe diagnose' -l keep-identifiers -d 'Do not redact the captured bundle'
complete -c hotplugctl -n '__hotplugctl_in probe' -l handshake -d 'Run the card\'s health check first'
complete -c hotplugctl -n '__hotplugctl_in probe' -l hex -d 'Config space as lspci -xxxx prints it'
complete -c hotplugctl -n '__hotplugctl_in probe' -l fits -x -d 'Would BARs of this size fit?'
complete -c hotplugctl -n '__hotplugctl_in probe' -l locate -x -a 'on off' -d 'The slot\'s attention indicator'
complete -c hotplugctl -n '__hotplugctl_in watch' -l until -x -a 'absent detected identified mapped bound initialised ready draining drained removed failed' -d 'End when the devices are at STATE'
complete -c hotplugctl -n '__hotplugctl_in watch' -l count -x -d 'End after N changes'
complete -c hotplugctl -n '__hotplugctl_in watch' -l timeout -x -d 'Give up after this time (exit 6)'
complete -c hotplugctl -n '__hotplugctl_in watch' -l for -x -d 'End after this time (exit 0)'
complete -c hotplugctl -n '__hotplugctl_in watch' -l exec -x -a '(__fish_complete_command)' -d 'Run CMD for every change'
complete -c hotplugctl -n '__hotplugctl_in watch' -l sink -x -d 'Send changes there too (repeatable)'
complete -c hotplugctl -n '__hotplugctl_in watch' -l batch -x -d 'Gather changes for this time'
complete -c hotplugctl -n '__hotplugctl_in watch' -l record -r -F -d 'Write the run for --replay'
complete -c hotplugctl -n '__hotplugctl_in watch' -l replay -r -F -d 'Play a recorded run'
complete -c hotplugctl -n '__hotplugctl_in watch' -l source -x -a 'auto udev kernel' -d 'Where events come from'
complete -c hotplugctl -n '__hotplugctl_in watch' -l metrics-file -r -F -d 'Prometheus textfile'
complete -c hotplugctl -n '__hotplugctl_in watch' -l labels-file -r -F -d 'Labels for node-feature-discovery'
complete -c hotplugctl -n '__hotplugctl_in drain' -l dry-run -d 'Show the plan, change nothing'
complete -c hotplugctl -n '__hotplugctl_in drain' -l yes -d 'Do not ask'
complete -c hotplugctl -n '__hotplugctl_in drain' -l timeout -x -d 'Wait this long for the work to end'
complete -c hotplugctl -n '__hotplugctl_in drain' -l grace -x -d 'Between asking a holder and killing it'
complete -c hotplugctl -n '__hotplugctl_in drain' -l stop-holders -d 'Ask holders to end, then kill'
complete -c hotplugctl -n '__hotplugctl_in drain' -l scheduler -x -a 'auto none slurm kubernetes' -d 'Who places work'
complete -c hotplugctl -n '__hotplugctl_in drain' -l scope -x -a 'device node' -d 'What the scheduler drains'
complete -c hotplugctl -n '__hotplugctl_in drain' -l remove -d 'Take it off the bus too'
complete -c hotplugctl -n '__hotplugctl_in drain' -l power-off -d 'Switch the slot off too'
complete -c hotplugctl -n '__hotplugctl_in drain' -l group -d 'With the cards that go with it'
complete -c hotplugctl -n '__hotplugctl_in drain' -l replace -d 'Guide the exchange of the card'
complete -c hotplugctl -n '__hotplugctl_in drain' -l reason -x -d 'Why, for the record'
complete -c hotplugctl -n '__hotplugctl_in drain' -l undo -d 'Take it back'
complete -c hotplugctl -n '__hotplugctl_in drain' -l status -d 'Drains in progress'
complete -c hotplugctl -n '__hotplugctl_in diagnose' -l from -r -F -a 'demo' -d 'Evidence: bundle, sosreport, dmesg or lspci text, logs, a folder (repeatable; one case)'
complete -c hotplugctl -n '__hotplugctl_in diagnose' -l since -x -d 'Only log lines this recent'
complete -c hotplugctl -n '__hotplugctl_in diagnose' -l fail-on -x -a 'critical error warning info' -d 'Exit 1 from this severity on'
complete -c hotplugctl -n '__hotplugctl_in diagnose' -l explain -x -a 'aer_uncorrectable_unrecovered bar_claimed_by_other bar_space_exhausted bus_numbers_exhausted callback_blocks_loop container_cgroup_lost container_device_not_visible dev_node_missing dev_node_permission device_boot_timeout device_count_not_refreshed device_heartbeat_lost device_in_use device_inaccessible device_occupied device_out_of_memory dpc_containment driver_hung_on_removal driver_init_failed driver_lib_version_mismatch driver_not_loaded event_callback_exception fabric_not_ready firmware_incompatible firmware_missing ghost_device health_check_failed hotplug_command_timeout hotplug_request_ignored hotplug_thread_dead iommu_disabled iommu_dma_fault irq_vectors_unavailable latch_open link_downtrained link_lost link_training_failed listener_no_events module_abi_mismatch module_signature_rejected no_free_hotplug_slot none port_asleep_no_event presence_flapping rebar_failed reset_hotplug_race resource_limit runtime_package_mismatch runtime_stale_after_hotplug runtime_too_old scheduled_before_ready slot_empty slot_power_fault slot_powered_off stale_device_handle surprise_removal uevent_overflow vfio_group_not_viable visible_devices_invalid wrong_driver_bound' -d 'What it means, how it is told, how that comes out here; `all` lists the causes'
