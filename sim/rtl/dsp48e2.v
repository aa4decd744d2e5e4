// Behavioural model of the UltraScale+ DSP48E2 (vendor's user guide UG579), for simulation only: Vivado and Yosys have their own.
//
// Modelled: A and B direct, pre-adder A2 + D or B2 + D, 27 x 18 multiplier, every input of the W, X, Y and Z multiplexers but the P cascade's
// MACC extension, the 48-bit sum (ALUMODE 0000), every register with its enable and reset, P and PCOUT. All else is refused.
// Ports and parameters bear the vendor's names, order and defaults; those not listed cannot be connected.
// It is quick because constant ports and parameters fold: a DSP with registers on and enables tied costs seven assignments a clock.
`default_nettype none

/* verilator lint_off UNUSEDSIGNAL */  // ports of the primitive that no modelled mode looks at
/* verilator lint_off UNUSEDPARAM */  // likewise
/* verilator lint_off DECLFILENAME */  // the file is named in lower case
module DSP48E2 #(
    parameter integer ACASCREG = 1,
    parameter integer ADREG = 1,
    parameter integer ALUMODEREG = 1,
    parameter AMULTSEL = "A",
    parameter integer AREG = 1,
    parameter A_INPUT = "DIRECT",
    parameter integer BCASCREG = 1,
    parameter BMULTSEL = "B",
    parameter integer BREG = 1,
    parameter B_INPUT = "DIRECT",
    parameter integer CARRYINREG = 1,
    parameter integer CARRYINSELREG = 1,
    parameter integer CREG = 1,
    parameter integer DREG = 1,
    parameter integer INMODEREG = 1,
    parameter integer MREG = 1,
    parameter integer OPMODEREG = 1,
    parameter PREADDINSEL = "A",
    parameter integer PREG = 1,
    parameter [47:0] RND = 48'h000000000000,
    parameter USE_MULT = "MULTIPLY",
    parameter USE_PATTERN_DETECT = "NO_PATDET",
    parameter USE_SIMD = "ONE48",
    parameter USE_WIDEXOR = "FALSE"
) (
    output wire [47:0] P,
    output wire [47:0] PCOUT,
    input wire [29:0] A,
    input wire [29:0] ACIN,
    input wire [3:0] ALUMODE,
    input wire [17:0] B,
    input wire [17:0] BCIN,
    input wire [47:0] C,
    input wire CARRYCASCIN,
    input wire CARRYIN,
    input wire [2:0] CARRYINSEL,
    input wire CEA1,
    input wire CEA2,
    input wire CEAD,
    input wire CEALUMODE,
    input wire CEB1,
    input wire CEB2,
    input wire CEC,
    input wire CECARRYIN,
    input wire CECTRL,
    input wire CED,
    input wire CEINMODE,
    input wire CEM,
    input wire CEP,
    input wire CLK,
    input wire [26:0] D,
    input wire [4:0] INMODE,
    input wire MULTSIGNIN,
    input wire [8:0] OPMODE,
    input wire [47:0] PCIN,
    input wire RSTA,
    input wire RSTALLCARRYIN,
    input wire RSTALUMODE,
    input wire RSTB,
    input wire RSTC,
    input wire RSTCTRL,
    input wire RSTD,
    input wire RSTINMODE,
    input wire RSTM,
    input wire RSTP
);
  /* verilator inline_module */

  /* verilator lint_off WIDTHEXPAND */  // strings of unlike length are compared
  localparam PREADD = AMULTSEL == "AD";
  localparam PREADD_B = AMULTSEL == "A" && BMULTSEL == "AD" && PREADDINSEL == "B";
  localparam LEGAL = ((AMULTSEL == "A" || PREADD) && BMULTSEL == "B" && PREADDINSEL == "A" || PREADD_B) && A_INPUT == "DIRECT" &&
      B_INPUT == "DIRECT" && USE_MULT == "MULTIPLY" && USE_SIMD == "ONE48" && USE_PATTERN_DETECT == "NO_PATDET" &&
      USE_WIDEXOR == "FALSE" && AREG >= 0 && AREG <= 2 && BREG >= 0 && BREG <= 2 && (AREG == ACASCREG || AREG == 2 && ACASCREG == 1) &&
      (BREG == BCASCREG || BREG == 2 && BCASCREG == 1);
  /* verilator lint_on WIDTHEXPAND */

  initial begin
    if (!LEGAL) $fatal(1, "%m: the model has no such mode");
  end

  // A and B: with one register it is the second, which alone is enabled by CE*2.
  reg [29:0] a1, a2;
  reg [17:0] b1, b2;
  always @(posedge CLK) begin
    if (RSTA) a1 <= 0;
    else if (CEA1) a1 <= A;
    if (RSTA) a2 <= 0;
    else if (CEA2) a2 <= AREG == 2 ? a1 : A;
    if (RSTB) b1 <= 0;
    else if (CEB1) b1 <= B;
    if (RSTB) b2 <= 0;
    else if (CEB2) b2 <= BREG == 2 ? b1 : B;
  end
  wire [29:0] a = AREG == 0 ? A : a2;
  wire [17:0] b = BREG == 0 ? B : b2;

  reg [26:0] d_register;
  always @(posedge CLK)
    if (RSTD) d_register <= 0;
    else if (CED) d_register <= D;
  wire [26:0] d = DREG == 0 ? D : d_register;

  reg [47:0] c_register;
  always @(posedge CLK)
    if (RSTC) c_register <= 0;
    else if (CEC) c_register <= C;
  wire [47:0] c = CREG == 0 ? C : c_register;

  reg [4:0] inmode_register;
  reg [8:0] opmode_register;
  reg [3:0] alumode_register;
  always @(posedge CLK) begin
    if (RSTINMODE) inmode_register <= 0;
    else if (CEINMODE) inmode_register <= INMODE;
    if (RSTCTRL) opmode_register <= 0;
    else if (CECTRL) opmode_register <= OPMODE;
    if (RSTALUMODE) alumode_register <= 0;
    else if (CEALUMODE) alumode_register <= ALUMODE;
  end
  wire [4:0] inmode = INMODEREG == 0 ? INMODE : inmode_register;
  wire [8:0] opmode = OPMODEREG == 0 ? OPMODE : opmode_register;
  wire [3:0] alumode = ALUMODEREG == 0 ? ALUMODE : alumode_register;

  // Pre-adder: INMODE[1] gates A or B, whichever it adds, INMODE[2] lets D in.
  reg [26:0] ad_register;
  wire [26:0] gated = inmode[1] ? 27'd0 : PREADD_B ? {{9{b[17]}}, b} : a[26:0];
  wire [26:0] ad_sum = gated + (inmode[2] ? d : 27'd0);
  always @(posedge CLK)
    if (RSTD) ad_register <= 0;
    else if (CEAD) ad_register <= ad_sum;
  wire [26:0] ad = ADREG == 0 ? ad_sum : ad_register;
  wire signed [26:0] multiplicand = PREADD ? ad : PREADD_B ? a[26:0] : gated;
  wire signed [17:0] multiplier = PREADD_B ? ad[17:0] : b;

  // The product is kept sign-extended: its 45 bits are all that the primitive has.
  reg signed [47:0] m_register;
  wire signed [47:0] product = multiplicand * multiplier;
  always @(posedge CLK)
    if (RSTM) m_register <= 0;
    else if (CEM) m_register <= product;
  wire [47:0] m = MREG == 0 ? product : m_register;

  reg [47:0] p_register;
  // X and Y each carry a half of the product: only together are they M.
  wire [47:0] xm = opmode[3:0] == 4'b0101 ? m : 48'd0;
  wire [47:0] x = opmode[1:0] == 2'b10 ? p_register : opmode[1:0] == 2'b11 ? {a, b} : xm;
  wire [47:0] y = opmode[3:2] == 2'b10 ? ~48'd0 : opmode[3:2] == 2'b11 ? c : 48'd0;
  wire [47:0] z = opmode[6:4] == 3'b001 ? PCIN :
      opmode[6:4] == 3'b010 ? p_register :
      opmode[6:4] == 3'b011 ? c :
      opmode[6:4] == 3'b101 ? {{17{PCIN[47]}}, PCIN[47:17]} :
      opmode[6:4] == 3'b110 ? {{17{p_register[47]}}, p_register[47:17]} : 48'd0;
  wire [47:0] w = opmode[8:7] == 2'b01 ? p_register : opmode[8:7] == 2'b10 ? RND : opmode[8:7] == 2'b11 ? c : 48'd0;
  wire [47:0] sum = w + x + y + z;
  always @(posedge CLK)
    if (RSTP) p_register <= 0;
    else if (CEP) p_register <= sum;
  assign P = PREG == 0 ? sum : p_register;
  assign PCOUT = P;

  initial begin  // configuration clears every register
    {a1, a2, b1, b2, d_register, c_register} = 0;
    {inmode_register, opmode_register, alumode_register} = 0;
    {ad_register, m_register, p_register} = 0;
  end

  wire refused = (opmode[1:0] == 2'b01) != (opmode[3:2] == 2'b01) || opmode[6:4] == 3'b100 || opmode[6:4] == 3'b111 ||
      alumode != 4'd0 || inmode[4] || inmode[3] || inmode[0] || CARRYINSEL != 3'd0 || CARRYIN;
  always @(posedge CLK) if (refused) $fatal(1, "%m: the model has no such mode");
endmodule
`default_nettype wire
