package watchdog

// revert does with the workspace's git folders what the starter would have
// done at the end. Nobody is left to be told what was found: what is set aside
// says so by its name.
func (d *dog) revert() { _ = d.held.Revert(d.set.Started) }
