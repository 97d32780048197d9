// Made of kernels.cu by tools/kernels_ptx.sh with nvcc 13.0; do not edit.
#pragma once

namespace spillway {

inline constexpr char kKernelsPtx[] = R"ptx(

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

.visible .entry spillway_hash(
	.param .u64 spillway_hash_param_0,
	.param .u32 spillway_hash_param_1,
	.param .u64 spillway_hash_param_2,
	.param .u64 spillway_hash_param_3
)
.maxntid 128, 1, 1
{
	.reg .pred 	%p<21>;
	.reg .b32 	%r<82>;
	.reg .b64 	%rd<425>;

	ld.param.u64 	%rd111, [spillway_hash_param_0];
	ld.param.u32 	%r3, [spillway_hash_param_1];
	ld.param.u64 	%rd77, [spillway_hash_param_2];
	cvta.to.global.u64 	%rd112, %rd77;
	mov.u32 	%r5, %tid.x;
	and.b32  	%r6, %r5, 7;
	mov.u32 	%r7, %ntid.x;
	mov.u32 	%r8, %ctaid.x;
	mad.lo.s32 	%r9, %r8, %r7, %r5;
	shr.u32 	%r10, %r9, 3;
	setp.lt.u32 	%p1, %r10, %r3;
	add.s32 	%r11, %r3, -1;
	selp.b32 	%r12, %r10, %r11, %p1;
	mul.wide.u32 	%rd113, %r12, 131072;
	cvt.u64.u32 	%rd114, %r6;
	or.b64  	%rd115, %rd114, %rd113;
	shl.b32 	%r13, %r5, 3;
	cvt.u64.u32 	%rd116, %r13;
	and.b64  	%rd117, %rd116, 56;
	add.s64 	%rd118, %rd112, %rd117;
	ld.global.u64 	%rd1, [%rd118];
	ld.global.u64 	%rd2, [%rd118+8];
	ld.global.u64 	%rd3, [%rd118+16];
	ld.global.u64 	%rd4, [%rd118+24];
	ld.global.u64 	%rd5, [%rd118+32];
	ld.global.u64 	%rd6, [%rd118+40];
	ld.global.u64 	%rd7, [%rd118+48];
	ld.global.u64 	%rd8, [%rd118+56];
	ld.global.u64 	%rd9, [%rd118+64];
	ld.global.u64 	%rd10, [%rd118+72];
	ld.global.u64 	%rd11, [%rd118+80];
	ld.global.u64 	%rd12, [%rd118+88];
	ld.global.u64 	%rd13, [%rd118+96];
	ld.global.u64 	%rd14, [%rd118+104];
	ld.global.u64 	%rd15, [%rd118+112];
	ld.global.u64 	%rd16, [%rd118+120];
	shl.b64 	%rd119, %rd115, 3;
	add.s64 	%rd80, %rd111, %rd119;
	ld.global.u64 	%rd17, [%rd118+184];
	ld.global.u64 	%rd18, [%rd118+248];
	ld.global.u64 	%rd424, [%rd118+440];

	ld.global.cs.u64 %rd408, [%rd80];

	add.s64 	%rd82, %rd80, 64;

	ld.global.cs.u64 %rd409, [%rd82];

	add.s64 	%rd84, %rd80, 128;

	ld.global.cs.u64 %rd410, [%rd84];

	add.s64 	%rd86, %rd80, 192;

	ld.global.cs.u64 %rd411, [%rd86];

	add.s64 	%rd88, %rd80, 256;

	ld.global.cs.u64 %rd412, [%rd88];

	add.s64 	%rd90, %rd80, 320;

	ld.global.cs.u64 %rd413, [%rd90];

	add.s64 	%rd92, %rd80, 384;

	ld.global.cs.u64 %rd414, [%rd92];

	add.s64 	%rd94, %rd80, 448;

	ld.global.cs.u64 %rd415, [%rd94];

	add.s64 	%rd96, %rd80, 512;

	ld.global.cs.u64 %rd416, [%rd96];

	add.s64 	%rd98, %rd80, 576;

	ld.global.cs.u64 %rd417, [%rd98];

	add.s64 	%rd100, %rd80, 640;

	ld.global.cs.u64 %rd418, [%rd100];

	add.s64 	%rd102, %rd80, 704;

	ld.global.cs.u64 %rd419, [%rd102];

	add.s64 	%rd104, %rd80, 768;

	ld.global.cs.u64 %rd420, [%rd104];

	add.s64 	%rd106, %rd80, 832;

	ld.global.cs.u64 %rd421, [%rd106];

	add.s64 	%rd108, %rd80, 896;

	ld.global.cs.u64 %rd422, [%rd108];

	add.s64 	%rd110, %rd80, 960;

	ld.global.cs.u64 %rd423, [%rd110];

	shl.b64 	%rd120, %rd113, 3;
	add.s64 	%rd407, %rd111, %rd120;
	mov.u32 	%r81, 9;

$L__BB1_1:
	add.s64 	%rd155, %rd407, %rd117;
	add.s64 	%rd122, %rd155, 1024;

	ld.global.cs.u64 %rd121, [%rd122];

	add.s64 	%rd124, %rd155, 1088;

	ld.global.cs.u64 %rd123, [%rd124];

	add.s64 	%rd126, %rd155, 1152;

	ld.global.cs.u64 %rd125, [%rd126];

	add.s64 	%rd128, %rd155, 1216;

	ld.global.cs.u64 %rd127, [%rd128];

	add.s64 	%rd130, %rd155, 1280;

	ld.global.cs.u64 %rd129, [%rd130];

	add.s64 	%rd132, %rd155, 1344;

	ld.global.cs.u64 %rd131, [%rd132];

	add.s64 	%rd134, %rd155, 1408;

	ld.global.cs.u64 %rd133, [%rd134];

	add.s64 	%rd136, %rd155, 1472;

	ld.global.cs.u64 %rd135, [%rd136];

	add.s64 	%rd138, %rd155, 1536;

	ld.global.cs.u64 %rd137, [%rd138];

	add.s64 	%rd140, %rd155, 1600;

	ld.global.cs.u64 %rd139, [%rd140];

	add.s64 	%rd142, %rd155, 1664;

	ld.global.cs.u64 %rd141, [%rd142];

	add.s64 	%rd144, %rd155, 1728;

	ld.global.cs.u64 %rd143, [%rd144];

	add.s64 	%rd146, %rd155, 1792;

	ld.global.cs.u64 %rd145, [%rd146];

	add.s64 	%rd148, %rd155, 1856;

	ld.global.cs.u64 %rd147, [%rd148];

	add.s64 	%rd150, %rd155, 1920;

	ld.global.cs.u64 %rd149, [%rd150];

	add.s64 	%rd152, %rd155, 1984;

	ld.global.cs.u64 %rd151, [%rd152];

	setp.gt.u32 	%p2, %r81, 1023;
	@%p2 bra 	$L__BB1_3;

	shl.b32 	%r17, %r5, 7;
	cvt.u64.u32 	%rd157, %r17;
	and.b64  	%rd158, %rd157, 896;
	add.s64 	%rd159, %rd407, %rd158;
	add.s64 	%rd156, %rd159, 9216;

	prefetch.global.L2 [%rd156];

$L__BB1_3:
	xor.b64  	%rd162, %rd1, %rd408;
	and.b64  	%rd163, %rd162, 4294967295;
	shr.u64 	%rd164, %rd162, 32;
	mul.lo.s64 	%rd165, %rd163, %rd164;
	add.s64 	%rd166, %rd165, %rd424;
	xor.b64  	%rd167, %rd2, %rd409;
	and.b64  	%rd168, %rd167, 4294967295;
	shr.u64 	%rd169, %rd167, 32;
	mul.lo.s64 	%rd170, %rd168, %rd169;
	add.s64 	%rd171, %rd170, %rd166;
	xor.b64  	%rd172, %rd3, %rd410;
	and.b64  	%rd173, %rd172, 4294967295;
	shr.u64 	%rd174, %rd172, 32;
	mul.lo.s64 	%rd175, %rd173, %rd174;
	add.s64 	%rd176, %rd175, %rd171;
	add.s64 	%rd177, %rd409, %rd408;
	add.s64 	%rd178, %rd410, %rd177;
	xor.b64  	%rd179, %rd4, %rd411;
	and.b64  	%rd180, %rd179, 4294967295;
	shr.u64 	%rd181, %rd179, 32;
	mul.lo.s64 	%rd182, %rd180, %rd181;
	add.s64 	%rd183, %rd182, %rd176;
	add.s64 	%rd184, %rd411, %rd178;
	xor.b64  	%rd185, %rd5, %rd412;
	and.b64  	%rd186, %rd185, 4294967295;
	shr.u64 	%rd187, %rd185, 32;
	mul.lo.s64 	%rd188, %rd186, %rd187;
	add.s64 	%rd189, %rd188, %rd183;
	add.s64 	%rd190, %rd412, %rd184;
	xor.b64  	%rd191, %rd6, %rd413;
	and.b64  	%rd192, %rd191, 4294967295;
	shr.u64 	%rd193, %rd191, 32;
	mul.lo.s64 	%rd194, %rd192, %rd193;
	add.s64 	%rd195, %rd194, %rd189;
	add.s64 	%rd196, %rd413, %rd190;
	xor.b64  	%rd197, %rd7, %rd414;
	and.b64  	%rd198, %rd197, 4294967295;
	shr.u64 	%rd199, %rd197, 32;
	mul.lo.s64 	%rd200, %rd198, %rd199;
	add.s64 	%rd201, %rd200, %rd195;
	add.s64 	%rd202, %rd414, %rd196;
	xor.b64  	%rd203, %rd8, %rd415;
	and.b64  	%rd204, %rd203, 4294967295;
	shr.u64 	%rd205, %rd203, 32;
	mul.lo.s64 	%rd206, %rd204, %rd205;
	add.s64 	%rd207, %rd206, %rd201;
	add.s64 	%rd208, %rd415, %rd202;
	xor.b64  	%rd209, %rd9, %rd416;
	and.b64  	%rd210, %rd209, 4294967295;
	shr.u64 	%rd211, %rd209, 32;
	mul.lo.s64 	%rd212, %rd210, %rd211;
	add.s64 	%rd213, %rd212, %rd207;
	add.s64 	%rd214, %rd416, %rd208;
	xor.b64  	%rd215, %rd10, %rd417;
	and.b64  	%rd216, %rd215, 4294967295;
	shr.u64 	%rd217, %rd215, 32;
	mul.lo.s64 	%rd218, %rd216, %rd217;
	add.s64 	%rd219, %rd218, %rd213;
	add.s64 	%rd220, %rd417, %rd214;
	xor.b64  	%rd221, %rd11, %rd418;
	and.b64  	%rd222, %rd221, 4294967295;
	shr.u64 	%rd223, %rd221, 32;
	mul.lo.s64 	%rd224, %rd222, %rd223;
	add.s64 	%rd225, %rd224, %rd219;
	add.s64 	%rd226, %rd418, %rd220;
	xor.b64  	%rd227, %rd12, %rd419;
	and.b64  	%rd228, %rd227, 4294967295;
	shr.u64 	%rd229, %rd227, 32;
	mul.lo.s64 	%rd230, %rd228, %rd229;
	add.s64 	%rd231, %rd230, %rd225;
	add.s64 	%rd232, %rd419, %rd226;
	xor.b64  	%rd233, %rd13, %rd420;
	and.b64  	%rd234, %rd233, 4294967295;
	shr.u64 	%rd235, %rd233, 32;
	mul.lo.s64 	%rd236, %rd234, %rd235;
	add.s64 	%rd237, %rd236, %rd231;
	add.s64 	%rd238, %rd420, %rd232;
	xor.b64  	%rd239, %rd14, %rd421;
	and.b64  	%rd240, %rd239, 4294967295;
	shr.u64 	%rd241, %rd239, 32;
	mul.lo.s64 	%rd242, %rd240, %rd241;
	add.s64 	%rd243, %rd242, %rd237;
	add.s64 	%rd244, %rd421, %rd238;
	xor.b64  	%rd245, %rd15, %rd422;
	and.b64  	%rd246, %rd245, 4294967295;
	shr.u64 	%rd247, %rd245, 32;
	mul.lo.s64 	%rd248, %rd246, %rd247;
	add.s64 	%rd249, %rd248, %rd243;
	add.s64 	%rd250, %rd422, %rd244;
	xor.b64  	%rd251, %rd16, %rd423;
	and.b64  	%rd252, %rd251, 4294967295;
	shr.u64 	%rd253, %rd251, 32;
	mul.lo.s64 	%rd254, %rd252, %rd253;
	add.s64 	%rd255, %rd254, %rd249;
	add.s64 	%rd160, %rd423, %rd250;

	mov.b64 {%r18,%r19}, %rd160;

	mov.u32 	%r22, 31;
	mov.u32 	%r23, 1;
	mov.u32 	%r24, -1;
	shfl.sync.bfly.b32 	%r21|%p3, %r19, %r23, %r22, %r24;
	shfl.sync.bfly.b32 	%r20|%p4, %r18, %r23, %r22, %r24;

	mov.b64 %rd161, {%r20,%r21};

	add.s64 	%rd256, %rd161, %rd255;
	shr.u64 	%rd257, %rd256, 47;
	xor.b64  	%rd258, %rd256, %rd17;
	xor.b64  	%rd259, %rd258, %rd257;
	mul.lo.s64 	%rd424, %rd259, 2654435761;
	add.s64 	%rd407, %rd407, 1024;
	add.s32 	%r81, %r81, 1;
	setp.ne.s32 	%p5, %r81, 1032;
	mov.u64 	%rd408, %rd121;
	mov.u64 	%rd409, %rd123;
	mov.u64 	%rd410, %rd125;
	mov.u64 	%rd411, %rd127;
	mov.u64 	%rd412, %rd129;
	mov.u64 	%rd413, %rd131;
	mov.u64 	%rd414, %rd133;
	mov.u64 	%rd415, %rd135;
	mov.u64 	%rd416, %rd137;
	mov.u64 	%rd417, %rd139;
	mov.u64 	%rd418, %rd141;
	mov.u64 	%rd419, %rd143;
	mov.u64 	%rd420, %rd145;
	mov.u64 	%rd421, %rd147;
	mov.u64 	%rd422, %rd149;
	mov.u64 	%rd423, %rd151;
	@%p5 bra 	$L__BB1_1;

	mov.u32 	%r80, %ntid.x;
	mov.u32 	%r79, %ctaid.x;
	mad.lo.s32 	%r78, %r79, %r80, %r5;
	shr.u32 	%r77, %r78, 3;
	ld.param.u64 	%rd406, [spillway_hash_param_2];
	cvta.to.global.u64 	%rd405, %rd406;
	add.s64 	%rd404, %rd405, %rd117;
	ld.param.u32 	%r73, [spillway_hash_param_1];
	ld.param.u64 	%rd402, [spillway_hash_param_2];
	cvta.to.global.u64 	%rd401, %rd402;
	and.b32  	%r72, %r5, 7;
	mov.u32 	%r71, 31;
	mov.u32 	%r70, 1;
	mov.u32 	%r69, -1;
	xor.b64  	%rd272, %rd1, %rd121;
	and.b64  	%rd273, %rd272, 4294967295;
	shr.u64 	%rd274, %rd272, 32;
	mul.lo.s64 	%rd275, %rd273, %rd274;
	add.s64 	%rd276, %rd275, %rd424;
	xor.b64  	%rd277, %rd2, %rd123;
	and.b64  	%rd278, %rd277, 4294967295;
	shr.u64 	%rd279, %rd277, 32;
	mul.lo.s64 	%rd280, %rd278, %rd279;
	add.s64 	%rd281, %rd280, %rd276;
	xor.b64  	%rd282, %rd3, %rd125;
	and.b64  	%rd283, %rd282, 4294967295;
	shr.u64 	%rd284, %rd282, 32;
	mul.lo.s64 	%rd285, %rd283, %rd284;
	add.s64 	%rd286, %rd285, %rd281;
	add.s64 	%rd287, %rd123, %rd121;
	add.s64 	%rd288, %rd125, %rd287;
	xor.b64  	%rd289, %rd4, %rd127;
	and.b64  	%rd290, %rd289, 4294967295;
	shr.u64 	%rd291, %rd289, 32;
	mul.lo.s64 	%rd292, %rd290, %rd291;
	add.s64 	%rd293, %rd292, %rd286;
	add.s64 	%rd294, %rd127, %rd288;
	xor.b64  	%rd295, %rd5, %rd129;
	and.b64  	%rd296, %rd295, 4294967295;
	shr.u64 	%rd297, %rd295, 32;
	mul.lo.s64 	%rd298, %rd296, %rd297;
	add.s64 	%rd299, %rd298, %rd293;
	add.s64 	%rd300, %rd129, %rd294;
	xor.b64  	%rd301, %rd6, %rd131;
	and.b64  	%rd302, %rd301, 4294967295;
	shr.u64 	%rd303, %rd301, 32;
	mul.lo.s64 	%rd304, %rd302, %rd303;
	add.s64 	%rd305, %rd304, %rd299;
	add.s64 	%rd306, %rd131, %rd300;
	xor.b64  	%rd307, %rd7, %rd133;
	and.b64  	%rd308, %rd307, 4294967295;
	shr.u64 	%rd309, %rd307, 32;
	mul.lo.s64 	%rd310, %rd308, %rd309;
	add.s64 	%rd311, %rd310, %rd305;
	add.s64 	%rd312, %rd133, %rd306;
	xor.b64  	%rd313, %rd8, %rd135;
	and.b64  	%rd314, %rd313, 4294967295;
	shr.u64 	%rd315, %rd313, 32;
	mul.lo.s64 	%rd316, %rd314, %rd315;
	add.s64 	%rd317, %rd316, %rd311;
	add.s64 	%rd318, %rd135, %rd312;
	xor.b64  	%rd319, %rd9, %rd137;
	and.b64  	%rd320, %rd319, 4294967295;
	shr.u64 	%rd321, %rd319, 32;
	mul.lo.s64 	%rd322, %rd320, %rd321;
	add.s64 	%rd323, %rd322, %rd317;
	add.s64 	%rd324, %rd137, %rd318;
	xor.b64  	%rd325, %rd10, %rd139;
	and.b64  	%rd326, %rd325, 4294967295;
	shr.u64 	%rd327, %rd325, 32;
	mul.lo.s64 	%rd328, %rd326, %rd327;
	add.s64 	%rd329, %rd328, %rd323;
	add.s64 	%rd330, %rd139, %rd324;
	xor.b64  	%rd331, %rd11, %rd141;
	and.b64  	%rd332, %rd331, 4294967295;
	shr.u64 	%rd333, %rd331, 32;
	mul.lo.s64 	%rd334, %rd332, %rd333;
	add.s64 	%rd335, %rd334, %rd329;
	add.s64 	%rd336, %rd141, %rd330;
	xor.b64  	%rd337, %rd12, %rd143;
	and.b64  	%rd338, %rd337, 4294967295;
	shr.u64 	%rd339, %rd337, 32;
	mul.lo.s64 	%rd340, %rd338, %rd339;
	add.s64 	%rd341, %rd340, %rd335;
	add.s64 	%rd342, %rd143, %rd336;
	xor.b64  	%rd343, %rd13, %rd145;
	and.b64  	%rd344, %rd343, 4294967295;
	shr.u64 	%rd345, %rd343, 32;
	mul.lo.s64 	%rd346, %rd344, %rd345;
	add.s64 	%rd347, %rd346, %rd341;
	add.s64 	%rd348, %rd145, %rd342;
	xor.b64  	%rd349, %rd14, %rd147;
	and.b64  	%rd350, %rd349, 4294967295;
	shr.u64 	%rd351, %rd349, 32;
	mul.lo.s64 	%rd352, %rd350, %rd351;
	add.s64 	%rd353, %rd352, %rd347;
	add.s64 	%rd354, %rd147, %rd348;
	xor.b64  	%rd355, %rd15, %rd149;
	and.b64  	%rd356, %rd355, 4294967295;
	shr.u64 	%rd357, %rd355, 32;
	mul.lo.s64 	%rd358, %rd356, %rd357;
	add.s64 	%rd359, %rd358, %rd353;
	add.s64 	%rd360, %rd149, %rd354;
	xor.b64  	%rd361, %rd18, %rd151;
	and.b64  	%rd362, %rd361, 4294967295;
	shr.u64 	%rd363, %rd361, 32;
	mul.lo.s64 	%rd364, %rd362, %rd363;
	add.s64 	%rd365, %rd364, %rd359;
	add.s64 	%rd260, %rd151, %rd360;

	mov.b64 {%r25,%r26}, %rd260;

	shfl.sync.bfly.b32 	%r28|%p6, %r26, %r70, %r71, %r69;
	shfl.sync.bfly.b32 	%r27|%p7, %r25, %r70, %r71, %r69;

	mov.b64 %rd261, {%r27,%r28};

	add.s64 	%rd262, %rd261, %rd365;

	mov.b64 {%r29,%r30}, %rd262;

	shfl.sync.bfly.b32 	%r32|%p8, %r30, %r70, %r71, %r69;
	shfl.sync.bfly.b32 	%r31|%p9, %r29, %r70, %r71, %r69;

	mov.b64 %rd263, {%r31,%r32};

	xor.b32  	%r55, %r72, 1;
	add.s32 	%r56, %r55, 39;
	mul.wide.u32 	%rd370, %r56, 8;
	add.s64 	%rd371, %rd401, %rd370;
	ld.global.u64 	%rd372, [%rd404+312];
	xor.b64  	%rd373, %rd372, %rd262;
	ld.global.u64 	%rd374, [%rd371];
	xor.b64  	%rd375, %rd374, %rd263;
	mul.lo.s64 	%rd376, %rd375, %rd373;
	mul.hi.u64 	%rd377, %rd373, %rd375;
	xor.b64  	%rd264, %rd376, %rd377;

	mov.b64 {%r33,%r34}, %rd264;

	mov.u32 	%r57, 2;
	shfl.sync.bfly.b32 	%r36|%p10, %r34, %r57, %r71, %r69;
	shfl.sync.bfly.b32 	%r35|%p11, %r33, %r57, %r71, %r69;

	mov.b64 %rd265, {%r35,%r36};

	add.s64 	%rd266, %rd265, %rd264;

	mov.b64 {%r37,%r38}, %rd266;

	mov.u32 	%r58, 4;
	shfl.sync.bfly.b32 	%r40|%p12, %r38, %r58, %r71, %r69;
	shfl.sync.bfly.b32 	%r39|%p13, %r37, %r58, %r71, %r69;

	mov.b64 %rd267, {%r39,%r40};

	ld.global.u64 	%rd378, [%rd404+376];
	xor.b64  	%rd379, %rd378, %rd262;
	ld.global.u64 	%rd380, [%rd371+64];
	xor.b64  	%rd381, %rd380, %rd263;
	mul.lo.s64 	%rd382, %rd381, %rd379;
	mul.hi.u64 	%rd383, %rd379, %rd381;
	xor.b64  	%rd268, %rd382, %rd383;

	mov.b64 {%r41,%r42}, %rd268;

	shfl.sync.bfly.b32 	%r44|%p14, %r42, %r57, %r71, %r69;
	shfl.sync.bfly.b32 	%r43|%p15, %r41, %r57, %r71, %r69;

	mov.b64 %rd269, {%r43,%r44};

	add.s64 	%rd270, %rd269, %rd268;

	mov.b64 {%r45,%r46}, %rd270;

	shfl.sync.bfly.b32 	%r48|%p16, %r46, %r58, %r71, %r69;
	shfl.sync.bfly.b32 	%r47|%p17, %r45, %r58, %r71, %r69;

	mov.b64 %rd271, {%r47,%r48};

	setp.ne.s32 	%p18, %r72, 0;
	setp.ge.u32 	%p19, %r77, %r73;
	or.pred  	%p20, %p18, %p19;
	@%p20 bra 	$L__BB1_6;

	ld.param.u64 	%rd403, [spillway_hash_param_3];
	mov.u32 	%r76, %ntid.x;
	mov.u32 	%r75, %ctaid.x;
	mad.lo.s32 	%r74, %r75, %r76, %r5;
	add.s64 	%rd384, %rd266, %rd267;
	add.s64 	%rd385, %rd384, -7270957434016890880;
	shr.u64 	%rd386, %rd385, 37;
	xor.b64  	%rd387, %rd386, %rd385;
	mul.lo.s64 	%rd388, %rd387, 1609587791953885689;
	shr.u64 	%rd389, %rd388, 32;
	xor.b64  	%rd390, %rd389, %rd388;
	shr.u32 	%r67, %r74, 2;
	and.b32  	%r68, %r67, 1073741822;
	cvta.to.global.u64 	%rd391, %rd403;
	mul.wide.u32 	%rd392, %r68, 8;
	add.s64 	%rd393, %rd391, %rd392;
	st.global.u64 	[%rd393], %rd390;
	add.s64 	%rd394, %rd270, %rd271;
	add.s64 	%rd395, %rd394, 2030422704994123775;
	shr.u64 	%rd396, %rd395, 37;
	xor.b64  	%rd397, %rd396, %rd395;
	mul.lo.s64 	%rd398, %rd397, 1609587791953885689;
	shr.u64 	%rd399, %rd398, 32;
	xor.b64  	%rd400, %rd399, %rd398;
	st.global.u64 	[%rd393+8], %rd400;

$L__BB1_6:
	ret;

}

)ptx";

}  // namespace spillway
