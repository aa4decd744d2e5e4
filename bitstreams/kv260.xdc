# KV260: the LEDs of the kit hang on the processing system. The LED port leads to Pmod J2: upper row, then lower row. Also the
# assumptions of the power report.
set_property -dict {PACKAGE_PIN H12 IOSTANDARD LVCMOS33} [get_ports {leds_tri_o[0]}]
set_property -dict {PACKAGE_PIN E10 IOSTANDARD LVCMOS33} [get_ports {leds_tri_o[1]}]
set_property -dict {PACKAGE_PIN D10 IOSTANDARD LVCMOS33} [get_ports {leds_tri_o[2]}]
set_property -dict {PACKAGE_PIN C11 IOSTANDARD LVCMOS33} [get_ports {leds_tri_o[3]}]
set_property -dict {PACKAGE_PIN B10 IOSTANDARD LVCMOS33} [get_ports {leds_tri_o[4]}]
set_property -dict {PACKAGE_PIN E12 IOSTANDARD LVCMOS33} [get_ports {leds_tri_o[5]}]
set_property -dict {PACKAGE_PIN D11 IOSTANDARD LVCMOS33} [get_ports {leds_tri_o[6]}]
set_property -dict {PACKAGE_PIN B11 IOSTANDARD LVCMOS33} [get_ports {leds_tri_o[7]}]
set_false_path -to [get_ports {leds_tri_o[*]}]

# The clocks are as in zcu102.xdc. The module's heat sink with the kit's fan:
set_operating_conditions -ambient_temp 35 -airflow 250 -heatsink medium
set_switching_activity -default_toggle_rate 25
