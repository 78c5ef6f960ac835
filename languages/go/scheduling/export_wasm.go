package scheduling

import "fluxgate"

//go:wasmexport fluxgate:policy/scheduling@0.1.0#run
func exportRun() { run(fluxgate.HostPass{}) }
