# ZCU104: user LEDs GPIO_LED_0..3 (UG1267, table of user I/O), and the assumptions of the power report.
set_property -dict {PACKAGE_PIN D5 IOSTANDARD LVCMOS33} [get_ports {leds_tri_o[0]}]
set_property -dict {PACKAGE_PIN D6 IOSTANDARD LVCMOS33} [get_ports {leds_tri_o[1]}]
set_property -dict {PACKAGE_PIN A5 IOSTANDARD LVCMOS33} [get_ports {leds_tri_o[2]}]
set_property -dict {PACKAGE_PIN B5 IOSTANDARD LVCMOS33} [get_ports {leds_tri_o[3]}]
set_false_path -to [get_ports {leds_tri_o[*]}]

# The clocks are as in zcu102.xdc. The board's fan and heat sink:
set_operating_conditions -ambient_temp 35 -airflow 250 -heatsink medium
set_switching_activity -default_toggle_rate 25
