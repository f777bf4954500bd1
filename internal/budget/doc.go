// Package budget keeps what model calls may use, in tokens and in money.
//
// Before a call its worst case is reserved, in one step that every process of
// the user takes part in; afterwards what it did use is settled. The record is a
// file for each day, which is only ever added to: a process that dies leaves its
// reservations spent, never free.
//
// The process that serves calls may open no file: it works on descriptors that
// it is given (Ledger), and its parent opens them (Folder). Neither dials.
package budget
