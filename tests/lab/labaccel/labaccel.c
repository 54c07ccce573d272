// SPDX-License-Identifier: GPL-2.0
/*
 * labaccel: an accelerator driver for QEMU's "edu" device (1234:11e8), made to fail on request.
 *
 * It does what a real accelerator driver does on the way up: map BAR 0, check that the device
 * answers, load firmware, boot it, and register /dev/accel/accelN. The parameter `fault` breaks
 * one of these steps for every device probed (or removed) after it was written. Other devices
 * than edu may be given to it by driver_override; the handshake of edu is left out for them.
 */
#include <linux/delay.h>
#include <linux/firmware.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include <drm/drm_accel.h>
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_managed.h>

#define EDU_IDENTITY	0x00	/* reads 0xRRrr00ed, R and r a version */
#define EDU_LIVENESS	0x04	/* reads the inverse of what was written */

enum status { BOOTING, OPERATIONAL, FAILED };

static const char * const status_names[] = { "booting", "operational", "failed" };

static char fault[32] = "none";
module_param_string(fault, fault, sizeof(fault), 0644);
MODULE_PARM_DESC(fault, "none, firmware_missing, probe_timeout, probe_eio, probe_einval, unsupported, slow_boot, late_boot, boot_fails, hang_probe, hang_remove, busy_remove, aer_disconnect");

static char firmware[64] = "labaccel/fw.bin";
module_param_string(firmware, firmware, sizeof(firmware), 0644);
MODULE_PARM_DESC(firmware, "firmware file asked for");

static unsigned int boot_ms = 3000;
module_param(boot_ms, uint, 0644);
MODULE_PARM_DESC(boot_ms, "how long slow_boot, late_boot, boot_fails and probe_timeout take");

static bool lazy;
module_param(lazy, bool, 0644);
MODULE_PARM_DESC(lazy, "load the firmware at the first open of the node, not in probe");

static bool online_event;
module_param(online_event, bool, 0644);
MODULE_PARM_DESC(online_event, "send the uevent 'online' from the accel node once operational");

static bool release;
static DECLARE_WAIT_QUEUE_HEAD(released);

static int release_set(const char *text, const struct kernel_param *param)
{
	int err = param_set_bool(text, param);

	wake_up_all(&released);
	return err;
}

static const struct kernel_param_ops release_ops = { .set = release_set, .get = param_get_bool };
module_param_cb(release, &release_ops, &release, 0644);
MODULE_PARM_DESC(release, "1 lets go what hang_probe, hang_remove and busy_remove hold");

struct labaccel {
	struct drm_device drm;
	struct pci_dev *pdev;
	void __iomem *bar;
	bool edu;
	bool boot_will_fail;
	bool firmware_loaded;
	enum status status;
	struct mutex firmware_lock;
	struct delayed_work boot;
};

static bool faulty(const char *name)
{
	return sysfs_streq(fault, name);
}

/* Not killable on purpose: this is what a driver that waits for its device without limit looks like. */
static noinline void labaccel_wait_for_device(void)
{
	wait_event(released, READ_ONCE(release));
}

/* Polled and not killable, as drivers with an open count of their own do it. */
static noinline void labaccel_wait_for_users(struct labaccel *lab)
{
	int users = atomic_read(&lab->drm.open_count);

	if (users)
		dev_info(&lab->pdev->dev, "%d file(s) of it still open, going on once they are closed\n", users);
	while (atomic_read(&lab->drm.open_count) && !READ_ONCE(release))
		msleep(50);
}

static bool labaccel_answers(struct labaccel *lab)
{
	if (!lab->edu)
		return true;
	iowrite32(0x600dcafe, lab->bar + EDU_LIVENESS);
	return ioread32(lab->bar + EDU_LIVENESS) == ~0x600dcafe;
}

static int labaccel_load_firmware(struct labaccel *lab)
{
	const char *name = faulty("firmware_missing") ? "labaccel/missing.bin" : firmware;
	const struct firmware *fw;
	int err;

	err = request_firmware(&fw, name, &lab->pdev->dev);
	if (err)
		return err;
	dev_info(&lab->pdev->dev, "firmware %s loaded, %zu bytes\n", name, fw->size);
	release_firmware(fw);
	lab->firmware_loaded = true;
	return 0;
}

static void labaccel_operational(struct labaccel *lab)
{
	WRITE_ONCE(lab->status, OPERATIONAL);
	dev_info(&lab->pdev->dev, "device is operational\n");
	if (online_event)
		kobject_uevent(&lab->drm.accel->kdev->kobj, KOBJ_ONLINE);
}

static void labaccel_late_boot(struct work_struct *work)
{
	struct labaccel *lab = container_of(to_delayed_work(work), struct labaccel, boot);

	if (!lab->boot_will_fail)
		return labaccel_operational(lab);
	WRITE_ONCE(lab->status, FAILED);
	dev_err(&lab->pdev->dev, "firmware did not boot: status register 0x%08x\n", 0xdead0001);
}

static ssize_t status_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct labaccel *lab = dev_get_drvdata(dev);
	enum status status = READ_ONCE(lab->status);
	int idx;

	if (status == OPERATIONAL && drm_dev_enter(&lab->drm, &idx)) {
		if (!labaccel_answers(lab))
			status = FAILED;
		drm_dev_exit(idx);
	}
	return sysfs_emit(buf, "%s\n", status_names[status]);
}
static DEVICE_ATTR_RO(status);

static struct attribute *labaccel_attrs[] = { &dev_attr_status.attr, NULL };
static const struct attribute_group labaccel_group = { .attrs = labaccel_attrs };

static int labaccel_open(struct drm_device *drm, struct drm_file *file)
{
	struct labaccel *lab = container_of(drm, struct labaccel, drm);
	int err = 0, idx;

	if (!drm_dev_enter(drm, &idx))
		return -ENODEV;
	mutex_lock(&lab->firmware_lock);
	if (!lab->firmware_loaded)
		err = labaccel_load_firmware(lab);
	mutex_unlock(&lab->firmware_lock);
	drm_dev_exit(idx);
	return err;
}

DEFINE_DRM_ACCEL_FOPS(labaccel_fops);

static const struct drm_driver labaccel_drm = {
	.driver_features = DRIVER_COMPUTE_ACCEL,
	.open = labaccel_open,
	.fops = &labaccel_fops,
	.name = "labaccel",
	.desc = "Accelerator of the hot-plug lab",
	.date = "20261129",
	.major = 1,
};

static int labaccel_boot(struct labaccel *lab)
{
	struct device *dev = &lab->pdev->dev;

	if (faulty("hang_probe"))
		labaccel_wait_for_device();
	if (faulty("probe_eio"))
		return dev_err_probe(dev, -EIO, "device reports an internal error\n");
	if (faulty("probe_einval"))
		return dev_err_probe(dev, -EINVAL, "handshake: the device answered with a version that makes no sense\n");
	/* The kernel has no word of its own for this one: it takes it that the driver is not for the device. */
	if (faulty("unsupported"))
		return dev_err_probe(dev, -ENODEV, "hardware revision 0x%02x is not one this driver knows\n",
				     lab->pdev->revision);
	if (faulty("probe_timeout")) {
		msleep(boot_ms);
		return dev_err_probe(dev, -ETIMEDOUT, "timed out after %u ms waiting for the firmware to boot\n", boot_ms);
	}
	if (faulty("slow_boot"))
		msleep(boot_ms);
	if (!labaccel_answers(lab))
		return dev_err_probe(dev, -EIO, "device does not answer: identity reads 0x%08x\n",
				     ioread32(lab->bar + EDU_IDENTITY));
	return 0;
}

static int labaccel_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct device *dev = &pdev->dev;
	struct labaccel *lab;
	int err;

	lab = devm_drm_dev_alloc(dev, &labaccel_drm, struct labaccel, drm);
	if (IS_ERR(lab))
		return PTR_ERR(lab);
	lab->pdev = pdev;
	lab->edu = pdev->vendor == 0x1234 && pdev->device == 0x11e8;
	INIT_DELAYED_WORK(&lab->boot, labaccel_late_boot);
	err = drmm_mutex_init(&lab->drm, &lab->firmware_lock);
	if (err)
		return err;
	pci_set_drvdata(pdev, lab);

	err = pcim_enable_device(pdev);
	if (err)
		return dev_err_probe(dev, err, "cannot enable the device\n");
	lab->bar = pcim_iomap_region(pdev, 0, "labaccel");
	if (IS_ERR(lab->bar))
		return dev_err_probe(dev, PTR_ERR(lab->bar), "cannot map BAR 0\n");
	pci_set_master(pdev);
	/* Here, not in dev_groups, so that `status` can be read while probe boots the device. */
	err = devm_device_add_group(dev, &labaccel_group);
	if (err)
		return err;
	if (!lazy) {
		err = labaccel_load_firmware(lab);
		if (err)
			return dev_err_probe(dev, err, "cannot load the firmware\n");
	}
	err = labaccel_boot(lab);
	if (err)
		return err;
	err = drm_dev_register(&lab->drm, 0);
	if (err)
		return dev_err_probe(dev, err, "cannot register the accel node\n");

	lab->boot_will_fail = faulty("boot_fails");
	if (lab->boot_will_fail || faulty("late_boot"))
		schedule_delayed_work(&lab->boot, msecs_to_jiffies(boot_ms));
	else
		labaccel_operational(lab);
	return 0;
}

static void labaccel_remove(struct pci_dev *pdev)
{
	struct labaccel *lab = pci_get_drvdata(pdev);

	if (faulty("hang_remove")) {
		dev_info(&pdev->dev, "waiting for the device to finish its work\n");
		labaccel_wait_for_device();
	}
	if (faulty("busy_remove"))
		labaccel_wait_for_users(lab);
	cancel_delayed_work_sync(&lab->boot);
	drm_dev_unplug(&lab->drm);
}

static pci_ers_result_t labaccel_error_detected(struct pci_dev *pdev, pci_channel_state_t state)
{
	dev_warn(&pdev->dev, "error detected, channel state %u\n", state);
	if (state == pci_channel_io_perm_failure || faulty("aer_disconnect"))
		return PCI_ERS_RESULT_DISCONNECT;
	return state == pci_channel_io_frozen ? PCI_ERS_RESULT_NEED_RESET : PCI_ERS_RESULT_CAN_RECOVER;
}

static pci_ers_result_t labaccel_mmio_enabled(struct pci_dev *pdev)
{
	return PCI_ERS_RESULT_RECOVERED;
}

static pci_ers_result_t labaccel_slot_reset(struct pci_dev *pdev)
{
	pci_restore_state(pdev);
	pci_save_state(pdev);
	dev_info(&pdev->dev, "slot was reset\n");
	return PCI_ERS_RESULT_RECOVERED;
}

static void labaccel_resume(struct pci_dev *pdev)
{
	dev_info(&pdev->dev, "resumed after an error\n");
}

static const struct pci_error_handlers labaccel_errors = {
	.error_detected = labaccel_error_detected,
	.mmio_enabled = labaccel_mmio_enabled,
	.slot_reset = labaccel_slot_reset,
	.resume = labaccel_resume,
};

static const struct pci_device_id labaccel_ids[] = {
	{ PCI_DEVICE(0x1234, 0x11e8) },
	{ }
};
MODULE_DEVICE_TABLE(pci, labaccel_ids);

static struct pci_driver labaccel_driver = {
	.name = "labaccel",
	.id_table = labaccel_ids,
	.probe = labaccel_probe,
	.remove = labaccel_remove,
	.err_handler = &labaccel_errors,
};
module_pci_driver(labaccel_driver);

MODULE_DESCRIPTION("Accelerator driver of the hot-plug lab, with faults to order");
MODULE_LICENSE("GPL");
MODULE_FIRMWARE("labaccel/fw.bin");
