// Package thread runs a function on an operating system thread that is thrown
// away afterwards, for what changes the thread itself: its namespaces, its
// priority, its ids. It knows nothing of what the function does.
package thread
