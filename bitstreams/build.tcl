# Builds cnna.bit and cnna.hwh for the board of a configuration, with reports of timing, utilisation and power:
#
#     vivado -mode batch -source bitstreams/build.tcl -tclargs zcu102 ps build/zcu102-ps
#
# Arguments: configuration, variant (ps: the accelerator works on the PS's DDR; pl: on the PL's own DDR4, filled by an AXI DMA),
# output folder. It uses non-project mode. `cnna` must be on the PATH, or CNNA must name it. The script is written for Vivado 2022.1,
# but has never run in Vivado. tests/bitstreams/ runs it in a Tcl interpreter and compares its commands with the block design in
# sim/board/design.py, from which the virtual board is made.

lassign $argv config variant out
if {$variant ni {ps pl}} { error "variant $variant is unknown; there are ps and pl" }
set here [file dirname [file normalize [info script]]]
set cnna [expr {[info exists env(CNNA)] ? $env(CNNA) : "cnna"}]
set name cnna_$variant
file mkdir $out/ip $out/reports

# --- the accelerator as an IP ---

exec $cnna board ip --config $config --variant $variant -o $out/ip
source $out/ip/settings.tcl ;# sets `ports`, `clock_mhz`, `vlnv`, and of the board `part`, `board_part`, `constraints`, `leds`, `ddr`
set hp_ports [expr {$variant eq "pl" ? 1 : $ports}] ;# one for the DMA, or one for each master of the accelerator
create_project -in_memory -part $part
set_property board_part $board_part [current_project]
if {[llength $board_connections]} { set_property board_connections $board_connections [current_project] }
set_property ip_repo_paths $out/ip [current_project]
update_ip_catalog -rebuild

# --- the block design ---

create_bd_design $name
proc cell {vlnv name args} {
    create_bd_cell -type ip -vlnv $vlnv $name
    if {[llength $args]} { set_property -dict $args [get_bd_cells $name] }
}
proc bus {master slave} { connect_bd_intf_net [get_bd_intf_pins $master] [get_bd_intf_pins $slave] }
proc wire {driver args} { foreach pin $args { connect_bd_net [get_bd_pins $driver] [get_bd_pins $pin] } }

create_bd_cell -type ip -vlnv xilinx.com:ip:zynq_ultra_ps_e:3.4 zynq_ultra_ps_e_0
apply_bd_automation -rule xilinx.com:bd_rule:zynq_ultra_ps_e -config {apply_board_preset 1} [get_bd_cells zynq_ultra_ps_e_0]
set ps [list CONFIG.PSU__USE__M_AXI_GP0 1 CONFIG.PSU__USE__M_AXI_GP1 0 CONFIG.PSU__USE__M_AXI_GP2 0 CONFIG.PSU__USE__IRQ0 1 \
    CONFIG.PSU__MAXIGP0__DATA_WIDTH 128 CONFIG.PSU__FPGA_PL0_ENABLE 1 CONFIG.PSU__FPGA_PL1_ENABLE 0 \
    CONFIG.PSU__CRL_APB__PL0_REF_CTRL__SRCSEL IOPLL CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ $clock_mhz]
for {set port 0} {$port < $hp_ports} {incr port} { ;# HP0..HP3 are the PS's S_AXI_GP2..GP5
    set gp [expr {$port + 2}]
    lappend ps CONFIG.PSU__USE__S_AXI_GP$gp 1 CONFIG.PSU__SAXIGP${gp}__DATA_WIDTH 128
}
set_property -dict $ps [get_bd_cells zynq_ultra_ps_e_0]

cell $vlnv cnna_0
cell xilinx.com:ip:axi_gpio:2.0 leds_gpio CONFIG.C_GPIO_WIDTH $leds CONFIG.C_ALL_OUTPUTS 1
cell xilinx.com:ip:proc_sys_reset:5.0 reset_300

# Both clocks come from one output of an MMCM, by two buffers of one kind, of which one divides by two (UG949, "Synchronous CDC").
cell xilinx.com:ip:clk_wiz:6.0 clocks CONFIG.PRIMITIVE MMCM CONFIG.PRIM_SOURCE Global_buffer CONFIG.PRIM_IN_FREQ $clock_mhz \
    CONFIG.CLKOUT1_REQUESTED_OUT_FREQ [expr {2 * $clock_mhz}] CONFIG.CLKOUT1_DRIVES No_buffer CONFIG.USE_RESET false CONFIG.USE_LOCKED true
cell xilinx.com:ip:xlconstant:1.1 one CONFIG.CONST_WIDTH 1 CONFIG.CONST_VAL 1
cell xilinx.com:ip:xlconstant:1.1 zero CONFIG.CONST_WIDTH 1 CONFIG.CONST_VAL 0
foreach {buffer division} {aclk_buffer 2 aclk2x_buffer 1} {
    cell xilinx.com:ip:util_ds_buf:2.2 $buffer CONFIG.C_BUF_TYPE BUFGCE_DIV CONFIG.C_BUFGCE_DIV $division CONFIG.C_SIZE 1
    wire clocks/clk_out1 $buffer/BUFGCE_I
    wire one/dout $buffer/BUFGCE_CE
    wire zero/dout $buffer/BUFGCE_CLR
}
wire zynq_ultra_ps_e_0/pl_clk0 clocks/clk_in1
wire clocks/locked reset_300/dcm_locked
wire aclk2x_buffer/BUFGCE_O cnna_0/aclk2x

cell xilinx.com:ip:smartconnect:1.0 axi_control CONFIG.NUM_SI 1 CONFIG.NUM_MI [expr {$variant eq "pl" ? 3 : 2}] CONFIG.NUM_CLKS 1
bus zynq_ultra_ps_e_0/M_AXI_HPM0_FPD axi_control/S00_AXI
bus axi_control/M00_AXI cnna_0/s_axi_control
bus axi_control/M01_AXI leds_gpio/S_AXI

set clocked {cnna_0/aclk leds_gpio/s_axi_aclk reset_300/slowest_sync_clk zynq_ultra_ps_e_0/maxihpm0_fpd_aclk axi_control/aclk}
set held {cnna_0/aresetn leds_gpio/s_axi_aresetn axi_control/aresetn}
for {set port 0} {$port < $hp_ports} {incr port} {
    set masters [expr {$variant eq "pl" ? 2 : 1}]
    cell xilinx.com:ip:smartconnect:1.0 axi_hp$port CONFIG.NUM_SI $masters CONFIG.NUM_MI 1 CONFIG.NUM_CLKS 1
    bus axi_hp$port/M00_AXI zynq_ultra_ps_e_0/S_AXI_HP${port}_FPD
    lappend clocked axi_hp$port/aclk zynq_ultra_ps_e_0/saxihp${port}_fpd_aclk
    lappend held axi_hp$port/aresetn
}

proc place {space segment offset range} {
    assign_bd_address -offset $offset -range $range -target_address_space [get_bd_addr_spaces $space] [get_bd_addr_segs $segment] -force
}
proc place_ps_ddr {space port} { ;# as HP port 0..3 shows it
    foreach window $::ddr {
        lassign $window half base size
        place $space zynq_ultra_ps_e_0/SAXIGP[expr {$port + 2}]/HP${port}_DDR_$half $base $size
    }
}

if {$variant eq "ps"} {
    for {set port 0} {$port < $ports} {incr port} { bus cnna_0/m_axi_gmem$port axi_hp$port/S00_AXI }
} else {
    cell xilinx.com:ip:axi_dma:7.1 axi_dma_0 CONFIG.c_include_sg 0 CONFIG.c_sg_length_width 26 CONFIG.c_addr_width 40 \
        CONFIG.c_m_axi_mm2s_data_width 128 CONFIG.c_m_axis_mm2s_tdata_width 128 CONFIG.c_m_axi_s2mm_data_width 128
    bus axi_control/M02_AXI axi_dma_0/S_AXI_LITE
    bus axi_dma_0/M_AXI_MM2S axi_hp0/S00_AXI
    bus axi_dma_0/M_AXI_S2MM axi_hp0/S01_AXI
    bus axi_dma_0/M_AXIS_MM2S cnna_0/s_axis
    bus cnna_0/m_axis axi_dma_0/S_AXIS_S2MM
    lappend clocked axi_dma_0/s_axi_lite_aclk axi_dma_0/m_axi_mm2s_aclk axi_dma_0/m_axi_s2mm_aclk
    lappend held axi_dma_0/axi_resetn

    # The memory controller. Its part, timing and pins come from the board's interfaces. It has a clock of its own, also of 300 MHz.
    cell xilinx.com:ip:ddr4:2.2 ddr4_0 CONFIG.C0_DDR4_BOARD_INTERFACE ddr4_sdram_062 CONFIG.C0_CLOCK_BOARD_INTERFACE user_si570_sysclk \
        CONFIG.C0.DDR4_AxiSelection true CONFIG.C0.DDR4_AxiDataWidth 128
    create_bd_intf_port -mode Master -vlnv xilinx.com:interface:ddr4_rtl:1.0 ddr4_sdram_062
    create_bd_intf_port -mode Slave -vlnv xilinx.com:interface:diff_clock_rtl:1.0 user_si570_sysclk
    set_property CONFIG.FREQ_HZ 300000000 [get_bd_intf_ports user_si570_sysclk]
    connect_bd_intf_net [get_bd_intf_pins ddr4_0/C0_DDR4] [get_bd_intf_ports ddr4_sdram_062]
    connect_bd_intf_net [get_bd_intf_pins ddr4_0/C0_SYS_CLK] [get_bd_intf_ports user_si570_sysclk]
    cell xilinx.com:ip:proc_sys_reset:5.0 reset_ddr4
    cell xilinx.com:ip:smartconnect:1.0 axi_memory CONFIG.NUM_SI $ports CONFIG.NUM_MI 1 CONFIG.NUM_CLKS 2
    for {set port 0} {$port < $ports} {incr port} { bus cnna_0/m_axi_gmem$port axi_memory/S0${port}_AXI }
    bus axi_memory/M00_AXI ddr4_0/C0_DDR4_S_AXI
    lappend clocked axi_memory/aclk
    lappend held axi_memory/aresetn
    wire reset_300/peripheral_reset ddr4_0/sys_rst
    wire ddr4_0/c0_ddr4_ui_clk axi_memory/aclk1 reset_ddr4/slowest_sync_clk
    wire ddr4_0/c0_ddr4_ui_clk_sync_rst reset_ddr4/ext_reset_in
    wire reset_ddr4/peripheral_aresetn ddr4_0/c0_ddr4_aresetn
}
wire aclk_buffer/BUFGCE_O {*}$clocked
wire zynq_ultra_ps_e_0/pl_resetn0 reset_300/ext_reset_in
wire reset_300/peripheral_aresetn {*}$held
wire cnna_0/interrupt zynq_ultra_ps_e_0/pl_ps_irq0
create_bd_port -dir O -from [expr {$leds - 1}] -to 0 leds_tri_o
connect_bd_net [get_bd_pins leds_gpio/gpio_io_o] [get_bd_ports leds_tri_o]

place zynq_ultra_ps_e_0/Data cnna_0/s_axi_control/reg0 0xA0000000 0x1000
place zynq_ultra_ps_e_0/Data leds_gpio/S_AXI/Reg 0xA0010000 0x10000
if {$variant eq "pl"} {
    place zynq_ultra_ps_e_0/Data axi_dma_0/S_AXI_LITE/Reg 0xA0020000 0x10000
    foreach channel {MM2S S2MM} { place_ps_ddr axi_dma_0/Data_$channel 0 }
}
for {set port 0} {$port < $ports} {incr port} {
    if {$variant eq "ps"} {
        place_ps_ddr cnna_0/m_axi_gmem$port $port
    } else {
        place cnna_0/m_axi_gmem$port ddr4_0/C0_DDR4_MEMORY_MAP/C0_DDR4_ADDRESS_BLOCK 0x400000000 0x20000000
    }
}
validate_bd_design
save_bd_design

# --- synthesis, implementation, files ---

set bd [get_files $name.bd]
generate_target all $bd
read_verilog [make_wrapper -files $bd -top]
read_xdc $here/$constraints
# In the Verilog, attributes keep copies of registers that must stay apart. -keep_equivalent_registers would keep all others too.
synth_design -top ${name}_wrapper -part $part -flatten_hierarchy rebuilt
read_xdc $out/ip/cnna.xdc ;# routes of equal delay for both clocks; their nets exist now
write_checkpoint -force $out/synthesised.dcp
opt_design -directive Explore
place_design -directive ExtraTimingOpt
phys_opt_design -directive AggressiveExplore
route_design -directive AggressiveExplore
phys_opt_design -directive AggressiveExplore
write_checkpoint -force $out/routed.dcp
report_timing_summary -file $out/reports/timing.rpt
report_utilization -hierarchical -file $out/reports/utilisation.rpt
report_power -file $out/reports/power.rpt
write_bitstream -force $out/cnna.bit
file copy -force [lindex [glob -directory . -types f *.gen/sources_1/bd/$name/hw_handoff/$name.hwh .gen/sources_1/bd/$name/hw_handoff/$name.hwh] 0] $out/cnna.hwh

# --- the manifest ---

set slack [get_property SLACK [lindex [get_timing_paths] 0]]
set manifest [open $out/manifest.json w]
puts $manifest "{\"config\": \"$config\", \"variant\": \"$variant\", \"vivado\": \"[version -short]\", \"clock_mhz\": $clock_mhz, \"slack_ns\": $slack,"
puts $manifest " \"cnna\": \"[lindex [exec $cnna --version] 1]\","
foreach {file end} {cnna.bit , cnna.hwh ""} {
    puts $manifest " \"$file\": \"[lindex [exec sha256sum $out/$file] 0]\"$end"
}
puts $manifest "}"
close $manifest
if {$slack < 0} { puts stderr "cnna: timing is not met: slack $slack ns at $clock_mhz MHz (see $out/reports/timing.rpt)"; exit 1 }
