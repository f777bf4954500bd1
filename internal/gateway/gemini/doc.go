// Package gemini speaks the dialect of Google's Gemini API: generateContent and
// its stream.
//
// The model stands in the path there, so the path is the gateway's. Names may
// be written in two ways (fileData, file_data); they are made one before
// anything is judged. It is pure: only the gateway's server dials.
package gemini
