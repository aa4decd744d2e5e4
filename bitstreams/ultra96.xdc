# Ultra96-V2: the two LEDs that the PL drives (RADIO_LED0 and RADIO_LED1), and the assumptions of the power report.
set_property -dict {PACKAGE_PIN A9 IOSTANDARD LVCMOS18} [get_ports {leds_tri_o[0]}]
set_property -dict {PACKAGE_PIN B9 IOSTANDARD LVCMOS18} [get_ports {leds_tri_o[1]}]
set_false_path -to [get_ports {leds_tri_o[*]}]

# The clocks are as in zcu102.xdc, of 250 and 500 MHz. The board's fan and heat sink:
set_operating_conditions -ambient_temp 35 -airflow 250 -heatsink medium
set_switching_activity -default_toggle_rate 25
