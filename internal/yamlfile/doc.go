// Package yamlfile reads the YAML files that people write for bailey: policy
// files, and the file of models.
//
// A file is held to one strict schema, of which the published JSON Schema is
// drawn. Whatever it does not know is an error with a position, and names what
// was most likely meant; anchors, aliases, tags and second documents are not
// read. It knows nothing of what the files mean: its callers are the packages
// that do.
package yamlfile
