// Package anthropic is the dialect of Anthropic's Messages API.
//
// It is pure: what may stand in a request is the list in messages.json, and
// nothing that the list does not name is sent.
package anthropic
