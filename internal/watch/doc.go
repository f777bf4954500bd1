// Package watch is how `bailey run` and its watchdog speak: the settings, the
// few messages and the reports, and the side of the one who starts it.
//
// The watchdog itself is internal/app/watchdog. It is a process of its own so
// that a sandbox is ended and cleaned up after even if everything else of
// bailey is killed or stopped. It is to be started before there is anything to
// clean up, with the places that will be made in its settings.
//
// What passes is written by bailey alone; nothing of a sandbox is in it.
package watch
