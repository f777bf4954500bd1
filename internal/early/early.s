// Functions without a body may be declared in a package that has a file like this.
