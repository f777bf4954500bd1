package sshgit

// ScreenPush is screenPush.
var ScreenPush = screenPush

// ParseCommand is parseCommand.
var ParseCommand = parseCommand
