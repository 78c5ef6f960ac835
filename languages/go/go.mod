module fluxgate

go 1.24
