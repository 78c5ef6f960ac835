module abilities

go 1.24

require fluxgate v0.0.0

replace fluxgate => ../../go
