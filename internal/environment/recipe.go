package environment

import "embed"

//go:embed recipes
var recipes embed.FS

// stepCopy is the step that comes before those of the kinds.
const stepCopy = "copy"

// script is what a step has /bin/sh run, in a sandbox.
func script(step string) string {
	if step == stepCopy {
		return recipeFile("copy.sh")
	}
	return recipeFile("common.sh") + recipeFile(step+".sh")
}

// recipe is all that a step runs: a part of a key, so that another version of
// it builds again.
func recipe(step string) string {
	if step == string(Python) {
		return script(step) + collector()
	}
	return script(step)
}

// collector is the program that installs a Python project's packages.
func collector() string { return recipeFile("collect.py") }

func recipeFile(name string) string {
	data, _ := recipes.ReadFile("recipes/" + name) // embedded
	return string(data)
}
