package api

// Token is a type that the document names for keys.
type Token string
