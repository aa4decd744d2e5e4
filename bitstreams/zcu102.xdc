# ZCU102: user LEDs DS38..DS45 (UG1182, table of user I/O), and the assumptions of the power report.
set_property -dict {PACKAGE_PIN AG14 IOSTANDARD LVCMOS33} [get_ports {leds_tri_o[0]}]
set_property -dict {PACKAGE_PIN AF13 IOSTANDARD LVCMOS33} [get_ports {leds_tri_o[1]}]
set_property -dict {PACKAGE_PIN AE13 IOSTANDARD LVCMOS33} [get_ports {leds_tri_o[2]}]
set_property -dict {PACKAGE_PIN AJ14 IOSTANDARD LVCMOS33} [get_ports {leds_tri_o[3]}]
set_property -dict {PACKAGE_PIN AJ15 IOSTANDARD LVCMOS33} [get_ports {leds_tri_o[4]}]
set_property -dict {PACKAGE_PIN AH13 IOSTANDARD LVCMOS33} [get_ports {leds_tri_o[5]}]
set_property -dict {PACKAGE_PIN AH14 IOSTANDARD LVCMOS33} [get_ports {leds_tri_o[6]}]
set_property -dict {PACKAGE_PIN AL12 IOSTANDARD LVCMOS33} [get_ports {leds_tri_o[7]}]
set_false_path -to [get_ports {leds_tri_o[*]}]

# aclk (300 MHz) and aclk2x come from the processing system's pl_clk0 by an MMCM and two buffers; Vivado derives their constraints from
# the one that comes with the PS. The board's fan and heat sink:
set_operating_conditions -ambient_temp 35 -airflow 250 -heatsink medium
set_switching_activity -default_toggle_rate 25
