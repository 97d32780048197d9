// Made of gather.cu by tools/gather_ptx.sh with nvcc 13.0; do not edit.
#pragma once

namespace spillway {

inline constexpr char kGatherPtx[] = R"ptx(

.version 7.0
.target sm_75
.address_size 64

.visible .entry spillway_gather(
	.param .u64 spillway_gather_param_0,
	.param .u32 spillway_gather_param_1
)
{
	.reg .pred 	%p<11>;
	.reg .b16 	%rs<2>;
	.reg .b32 	%r<49>;
	.reg .b64 	%rd<65>;

	ld.param.u64 	%rd30, [spillway_gather_param_0];
	ld.param.u32 	%r5, [spillway_gather_param_1];
	cvta.to.global.u64 	%rd1, %rd30;
	mov.u32 	%r48, %ctaid.x;
	setp.ge.u32 	%p1, %r48, %r5;
	@%p1 bra 	$L__BB0_14;

	mul.wide.u32 	%rd31, %r48, 24;
	add.s64 	%rd32, %rd1, %rd31;
	ld.global.u64 	%rd57, [%rd32+16];
	ld.global.u64 	%rd56, [%rd32+8];
	ld.global.u64 	%rd55, [%rd32];
	mov.u32 	%r2, %nctaid.x;
	mov.u32 	%r6, %tid.x;
	cvt.u64.u32 	%rd5, %r6;
	mov.u32 	%r7, %ntid.x;
	cvt.u64.u32 	%rd6, %r7;
	mul.wide.u32 	%rd7, %r7, 3;
	add.s64 	%rd8, %rd7, %rd5;
	mul.wide.u32 	%rd9, %r7, 16;

$L__BB0_2:
	mov.u64 	%rd12, %rd57;
	mov.u64 	%rd11, %rd56;
	mov.u64 	%rd10, %rd55;
	add.s32 	%r48, %r48, %r2;
	setp.ge.u32 	%p2, %r48, %r5;
	@%p2 bra 	$L__BB0_4;

	mul.wide.u32 	%rd33, %r48, 24;
	add.s64 	%rd34, %rd1, %rd33;
	ld.global.u64 	%rd57, [%rd34+16];
	ld.global.u64 	%rd56, [%rd34+8];
	ld.global.u64 	%rd55, [%rd34];

$L__BB0_4:
	or.b64  	%rd35, %rd10, %rd11;
	or.b64  	%rd36, %rd35, %rd12;
	and.b64  	%rd37, %rd36, 15;
	setp.eq.s64 	%p3, %rd37, 0;
	@%p3 bra 	$L__BB0_8;

	setp.le.u64 	%p4, %rd12, %rd5;
	@%p4 bra 	$L__BB0_13;

	mov.u64 	%rd61, %rd5;

$L__BB0_7:
	add.s64 	%rd38, %rd11, %rd61;
	ld.u8 	%rs1, [%rd38];
	add.s64 	%rd39, %rd10, %rd61;
	st.u8 	[%rd39], %rs1;
	add.s64 	%rd61, %rd61, %rd6;
	setp.lt.u64 	%p5, %rd61, %rd12;
	@%p5 bra 	$L__BB0_7;
	bra.uni 	$L__BB0_13;

$L__BB0_8:
	shr.u64 	%rd24, %rd12, 4;
	setp.ge.u64 	%p6, %rd8, %rd24;
	mov.u64 	%rd63, %rd5;
	@%p6 bra 	$L__BB0_11;

	mov.u64 	%rd63, %rd5;

$L__BB0_10:
	shl.b64 	%rd40, %rd63, 4;
	add.s64 	%rd41, %rd11, %rd40;
	shl.b64 	%rd42, %rd6, 2;
	shl.b64 	%rd43, %rd6, 4;
	add.s64 	%rd44, %rd41, %rd43;
	ld.v4.u32 	{%r8, %r9, %r10, %r11}, [%rd44];
	add.s64 	%rd45, %rd44, %rd9;
	ld.v4.u32 	{%r16, %r17, %r18, %r19}, [%rd45];
	add.s64 	%rd46, %rd45, %rd9;
	ld.v4.u32 	{%r24, %r25, %r26, %r27}, [%rd46];
	add.s64 	%rd47, %rd10, %rd40;
	ld.v4.u32 	{%r32, %r33, %r34, %r35}, [%rd41];
	st.v4.u32 	[%rd47], {%r32, %r33, %r34, %r35};
	add.s64 	%rd48, %rd47, %rd9;
	st.v4.u32 	[%rd48], {%r8, %r9, %r10, %r11};
	add.s64 	%rd49, %rd48, %rd9;
	st.v4.u32 	[%rd49], {%r16, %r17, %r18, %r19};
	add.s64 	%rd50, %rd49, %rd9;
	st.v4.u32 	[%rd50], {%r24, %r25, %r26, %r27};
	add.s64 	%rd63, %rd42, %rd63;
	add.s64 	%rd51, %rd63, %rd7;
	setp.lt.u64 	%p7, %rd51, %rd24;
	@%p7 bra 	$L__BB0_10;

$L__BB0_11:
	setp.ge.u64 	%p8, %rd63, %rd24;
	@%p8 bra 	$L__BB0_13;

$L__BB0_12:
	shl.b64 	%rd52, %rd63, 4;
	add.s64 	%rd53, %rd10, %rd52;
	add.s64 	%rd54, %rd11, %rd52;
	ld.v4.u32 	{%r40, %r41, %r42, %r43}, [%rd54];
	st.v4.u32 	[%rd53], {%r40, %r41, %r42, %r43};
	add.s64 	%rd63, %rd63, %rd6;
	setp.lt.u64 	%p9, %rd63, %rd24;
	@%p9 bra 	$L__BB0_12;

$L__BB0_13:
	setp.lt.u32 	%p10, %r48, %r5;
	@%p10 bra 	$L__BB0_2;

$L__BB0_14:
	ret;

}

)ptx";

}  // namespace spillway
