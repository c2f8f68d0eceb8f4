module github.com/idemgen/idemgen

go 1.25.0
