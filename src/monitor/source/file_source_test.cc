// SPDX-License-Identifier: Apache-2.0
// The kinds of sources that read files: amd-sysfs, disk, file, fixed. Except in
// the last test of each kind, the files are the test's own.

#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/small_file.h"
#include "monitor/source/disk.h"
#include "monitor/source/given.h"
#include "monitor/source/kind.h"
#include "monitor/testing/file_sources.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using testing::FileSources;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::string_view kAllOnes = "18446744073709551615\n";

// --- small files ---

TEST_F(FileSources, ASmallFileIsNothingWhenNotThereAndRefusedWhenItCouldMakeUsWait) {
  EXPECT_EQ(ReadSmallFile(tree_.Path("none")).value(), std::nullopt);
  EXPECT_EQ(ReadSmallFile(tree_.Path("none/at/all")).value(), std::nullopt);
  EXPECT_THAT(ReadSmallFile(tree_.Path("")).error().message, HasSubstr("a directory"));
  EXPECT_THAT(ReadSmallFile("/dev/zero").error().message, HasSubstr("a device"));
  EXPECT_FALSE(ReadSmallFile(""));
  EXPECT_FALSE(ReadSmallFile(std::string("/proc/meminfo\0x", 15)));
  ASSERT_EQ(::mkfifo(tree_.Path("fifo").c_str(), 0600), 0);
  const auto fifo = ReadSmallFile(tree_.Path("fifo"));
  EXPECT_EQ(fifo.error().code, Code::kInvalidArgument);
  EXPECT_THAT(fifo.error().message, HasSubstr("a FIFO"));
}

TEST_F(FileSources, ASmallFileIsReadWholeOrNotAtAll) {
  tree_.Write("file", "12345");
  EXPECT_EQ(ReadSmallFile(tree_.Path("file"), 5).value(), "12345");
  EXPECT_THAT(ReadSmallFile(tree_.Path("file"), 4).error().message, HasSubstr("longer than 4"));
  tree_.Write("file", "");
  EXPECT_EQ(ReadSmallFile(tree_.Path("file")).value(), "");
}

// --- amd-sysfs ---

class AmdSysfs : public FileSources {
 protected:
  struct CardFiles {
    std::string pci = "0000:03:00.0";
    std::string total = "17163091968\n";
    std::string used = "1000000000\n";
    std::string driver = "amdgpu";
  };

  void AddCard(int number, const CardFiles& files) const {
    const std::string device = Device(number);
    tree_.Write(device + "uevent",
                fmt::format("DRIVER={}\nPCI_CLASS=30000\nPCI_ID=1002:73BF\nPCI_SLOT_NAME={}\n",
                            files.driver, files.pci));
    tree_.Write(device + "device", "0x73bf\n");
    tree_.Write(device + "mem_info_vram_total", files.total);
    tree_.Write(device + "mem_info_vram_used", files.used);
  }
  void AddCard(int number) const { AddCard(number, CardFiles{}); }
  // Reads of a removed kernel file fail, even through an open descriptor.
  void Vanish(int number) const {
    tree_.Overwrite(Device(number) + "mem_info_vram_total", "");
    tree_.Overwrite(Device(number) + "mem_info_vram_used", "");
    tree_.Remove(fmt::format("sys/class/drm/card{}", number));
  }
  static std::string Device(int number) {
    return fmt::format("sys/class/drm/card{}/device/", number);
  }
  Sighting Look() const { return AmdSysfsKind().Look(tree_.Machine()); }
  Result<Reading> ReadOnly() const { return Open(AmdSysfsKind())->Read(); }
};

TEST_F(AmdSysfs, ReadsTotalAndFreeAndFollowsThem) {
  AddCard(0);
  const auto source = Open(AmdSysfsKind());
  EXPECT_EQ(source->name(), "amd-sysfs:0000:03:00.0");
  Reading reading = source->Read().value();
  EXPECT_EQ(reading.total, 17163091968U);
  EXPECT_EQ(reading.free, 16163091968U);
  EXPECT_EQ(reading.scope, Scope::kCard);
  tree_.Overwrite(Device(0) + "mem_info_vram_used", "17163091968\n");
  reading = source->Read().value();
  EXPECT_EQ(reading.free, 0U);
}

TEST_F(AmdSysfs, FindsItsOwnCardsAmongOthersAndConnectors) {
  AddCard(2, {.pci = "0000:C3:00.0"});
  AddCard(1);
  AddCard(0, {.pci = "0000:01:00.0", .driver = "nvidia"});
  tree_.Write("sys/class/drm/card1-HDMI-A-1/device/uevent", "DRIVER=amdgpu\n");
  tree_.Write("sys/class/drm/renderD128/device/uevent", "DRIVER=amdgpu\n");
  tree_.Write("sys/class/drm/version", "drm 1.1.0\n");
  tree_.Write(Device(2) + "product_name", "Instinct MI300X\n");
  const Sighting sighting = Look();
  ASSERT_THAT(sighting.found, SizeIs(2));
  EXPECT_THAT(sighting.why_not, IsEmpty());
  EXPECT_EQ(sighting.found[0].device, "0000:03:00.0");
  EXPECT_EQ(sighting.found[0].label, "AMD card 0x73bf");
  EXPECT_EQ(sighting.found[0].scope, Scope::kCard);
  EXPECT_EQ(sighting.found[1].device, "0000:c3:00.0");
  EXPECT_EQ(sighting.found[1].label, "Instinct MI300X");
  EXPECT_EQ(Open(AmdSysfsKind(), "c3:00.0")->name(), "amd-sysfs:0000:c3:00.0");
  EXPECT_THAT(WhyNot(AmdSysfsKind()).message, HasSubstr("there are 2 devices"));
  EXPECT_THAT(WhyNot(AmdSysfsKind(), "0000:09:00.0").message, HasSubstr("is not there"));
}

TEST_F(AmdSysfs, SaysWhyThereIsNone) {
  EXPECT_THAT(Look().why_not, AllOf(HasSubstr("no AMD card: "), HasSubstr("No such file")));
  AddCard(0, {.driver = "i915"});
  EXPECT_EQ(Look().why_not, fmt::format("no AMD card: {} has none with the amdgpu driver",
                                        tree_.Path("sys/class/drm")));
  EXPECT_EQ(WhyNot(AmdSysfsKind()).code, Code::kUnavailable);
  AddCard(0, {.pci = "what"});
  EXPECT_THAT(Look().why_not, HasSubstr("names no PCI slot"));
  AddCard(1);  // One card is found, another cannot be read.
  EXPECT_THAT(Look().found, SizeIs(1));
  EXPECT_THAT(Look().why_not, HasSubstr("card0/device/uevent names no PCI slot"));
}

TEST_F(AmdSysfs, PartitionsOfOnePackageAreToldAndNeverSummed) {
  AddCard(0, {.pci = "0000:c1:00.0", .total = "1000\n", .used = "100\n"});
  AddCard(1, {.pci = "0000:c1:00.1", .total = "1000\n", .used = "100\n"});
  AddCard(2, {.pci = "0000:c2:00.0", .total = "1000\n", .used = "100\n"});
  const Sighting sighting = Look();
  ASSERT_THAT(sighting.found, SizeIs(3));
  EXPECT_EQ(sighting.found[0].scope, Scope::kPartition);
  EXPECT_EQ(sighting.found[1].scope, Scope::kPartition);
  EXPECT_EQ(sighting.found[2].scope, Scope::kCard);
  const Reading reading = Open(AmdSysfsKind(), "0000:c1:00.1")->Read().value();
  EXPECT_EQ(reading.total, 1000U);
  EXPECT_EQ(reading.scope, Scope::kPartition);
}

TEST_F(AmdSysfs, APartitionWithoutMemoryOfItsOwnIsAnErrorThatSaysSo) {
  AddCard(0, {.total = "0\n", .used = "0\n"});
  EXPECT_EQ(Look().found.at(0).scope, Scope::kPartition);
  EXPECT_THAT(ReadOnly().error().message,
              AllOf(HasSubstr("amd-sysfs:0000:03:00.0"), HasSubstr("vram_total is 0")));
}

TEST_F(AmdSysfs, AbsurdFiguresAreErrors) {
  AddCard(0, {.total = "1000\n", .used = "1001\n"});
  EXPECT_THAT(ReadOnly().error().message, HasSubstr("more used than there is"));
  AddCard(0, {.total = std::string(kAllOnes), .used = "5\n"});
  EXPECT_THAT(ReadOnly().error().message, HasSubstr("all ones"));
  AddCard(0, {.used = std::string(kAllOnes)});
  EXPECT_FALSE(ReadOnly());
  for (const char* garbage : {"", "\n", "many\n", "12x\n", "-1\n", "99999999999999999999\n"}) {
    AddCard(0, {.used = garbage});
    EXPECT_THAT(ReadOnly().error().message, HasSubstr("mem_info_vram_used")) << garbage;
  }
}

TEST_F(AmdSysfs, AVanishedCardIsAnErrorAndFoundAgainUnderAnotherNumber) {
  AddCard(0);
  const auto source = Open(AmdSysfsKind());
  ASSERT_TRUE(source->Read());
  Vanish(0);
  EXPECT_FALSE(source->Read());
  EXPECT_THAT(source->Read().error().message, HasSubstr("none with the amdgpu driver"));
  AddCard(1, {.pci = "0000:04:00.0"});  // Another card does not count.
  EXPECT_THAT(source->Read().error().message, HasSubstr("the card is not there"));
  AddCard(5, {.used = "7\n"});
  EXPECT_EQ(source->Read().value().free, 17163091961U);
}

TEST_F(AmdSysfs, ACardWithoutItsFilesIsAnErrorUntilTheyAreThere) {
  AddCard(0);
  tree_.Remove(Device(0) + "mem_info_vram_used");
  const auto source = Open(AmdSysfsKind());
  EXPECT_THAT(source->Read().error().message, HasSubstr("mem_info_vram_used is not there"));
  AddCard(0);
  EXPECT_TRUE(source->Read());
}

TEST_F(AmdSysfs, TheCardsOfThisMachine) {
  const Sighting sighting = AmdSysfsKind().Look(Machine{});
  EXPECT_EQ(sighting.found.empty(), !sighting.why_not.empty());
  for (const Found& found : sighting.found) {
    const auto source = AmdSysfsKind().Open(Machine{}, found.device).value();
    if (found.scope == Scope::kCard) {
      EXPECT_GT(source->Read().value().total, 0U);
    }
  }
}

// --- disk ---

class Disk : public FileSources {
 protected:
  static struct statvfs Facts(fsblkcnt_t blocks, fsblkcnt_t free, fsblkcnt_t for_users) {
    struct statvfs facts{};
    facts.f_frsize = 4096;
    facts.f_bsize = 65536;  // The preferred size of a write; must not matter.
    facts.f_blocks = blocks;
    facts.f_bfree = free;
    facts.f_bavail = for_users;
    return facts;
  }
};

TEST_F(Disk, FreeIsWhatAUserWithoutPrivilegesCanHave) {
  const Reading reading = DiskReading(Facts(1000, 100, 50), "disk:/x").value();
  EXPECT_EQ(reading.total, 4096000U);
  EXPECT_EQ(reading.free, 204800U);
  EXPECT_EQ(reading.scope, Scope::kFileSystem);
  EXPECT_EQ(DiskReading(Facts(1000, 50, 0), "disk:/x").value().pressure(), 1);  // Full.
}

TEST_F(Disk, AbsurdFiguresAreErrors) {
  EXPECT_THAT(DiskReading(Facts(0, 0, 0), "disk:/proc").error().message,
              AllOf(HasSubstr("disk:/proc"), HasSubstr("a total of 0")));
  EXPECT_THAT(DiskReading(Facts(10, 20, 20), "d").error().message, HasSubstr("more free"));
  EXPECT_THAT(DiskReading(Facts(~fsblkcnt_t{0}, 1, 1), "d").error().message, HasSubstr("absurd"));
  EXPECT_FALSE(DiskReading({}, "d"));
}

TEST_F(Disk, ReadsTheFileSystemUnderAPathUntilItVanishesAndWhenItIsBack) {
  tree_.Write("cache/file", "x");
  const auto source = Open(DiskKind(), tree_.Path("cache"));
  EXPECT_EQ(source->name(), "disk:" + tree_.Path("cache"));
  const Reading reading = source->Read().value();
  EXPECT_GT(reading.total, 0U);
  EXPECT_LE(reading.free, reading.total);
  tree_.Remove("cache");
  EXPECT_THAT(source->Read().error().message,
              AllOf(HasSubstr(tree_.Path("cache")), HasSubstr("No such file")));
  tree_.Write("cache/file", "x");
  EXPECT_TRUE(source->Read());
}

TEST_F(Disk, NeedsAPathThatIsThere) {
  EXPECT_EQ(WhyNot(DiskKind()).code, Code::kInvalidArgument);
  EXPECT_EQ(WhyNot(DiskKind()).message, "disk: needs a path: disk:/var/cache");
  EXPECT_EQ(WhyNot(DiskKind(), tree_.Path("none")).code, Code::kUnavailable);
  EXPECT_EQ(WhyNot(DiskKind(), std::string_view("/\0x", 3)).code, Code::kInvalidArgument);
  EXPECT_THAT(DiskKind().Look(tree_.Machine()).found, IsEmpty());
  EXPECT_EQ(DiskKind().Look(tree_.Machine()).why_not, "needs a path: disk:/var/cache");
}

// --- file ---

class File : public FileSources {
 protected:
  std::string At() const { return tree_.Path("pressure"); }
  void Says(std::string_view text) const { tree_.Write("pressure", text); }
};

TEST_F(File, OneNumberIsAPressure) {
  Says("0.93\n");
  const auto source = Open(FileKind(), At());
  EXPECT_EQ(source->name(), "file:" + At());
  const Reading reading = source->Read().value();
  EXPECT_EQ(reading.total, kGivenTotal);
  EXPECT_EQ(reading.scope, Scope::kGiven);
  EXPECT_NEAR(reading.pressure(), 0.93, 1e-11);
  Says(" 1 ");
  EXPECT_EQ(source->Read().value().free, 0U);
  Says("0");
  EXPECT_EQ(source->Read().value().free, kGivenTotal);
}

TEST_F(File, TwoSizesAreTotalAndFree) {
  for (const char* text :
       {"total 80GiB\nfree 5GiB\n", "free 5GiB total 80GiB", "total 80 GiB\r\nfree 5 GiB\r\n",
        "total 85899345920 free 5368709120\n"}) {
    Says(text);
    const Reading reading = Open(FileKind(), At())->Read().value();
    EXPECT_EQ(reading.total, 80 * kGiB) << text;
    EXPECT_EQ(reading.free, 5 * kGiB) << text;
  }
}

TEST_F(File, GarbageIsAnErrorThatNamesItAndWhatWouldBeRight) {
  Says("0.5");
  const auto source = Open(FileKind(), At());
  for (const char* text : {"",
                           "\n",
                           "high",
                           "-0.1",
                           "1.01",
                           "nan",
                           "inf",
                           "93%",
                           "0.5x",
                           "0,5",
                           "0.5 0.6",
                           "total 80GiB",
                           "free 5GiB",
                           "total 80GiB free",
                           "total free 5GiB",
                           "total 80G free 5G",
                           "total 1GiB free 2GiB",
                           "total 0 free 0",
                           "total 1 free 0 free 1",
                           "x total 2 free 1",
                           "total 18446744073709551615 free 1"}) {
    Says(text);
    EXPECT_EQ(WhyNot(FileKind(), At()).code, Code::kInvalidArgument) << text;
    const std::string message = source->Read().error().message;
    EXPECT_THAT(message, AllOf(HasSubstr(At()), HasSubstr("0.93"), HasSubstr("total 80GiB")));
    if (text[0] > ' ') {
      EXPECT_THAT(message, HasSubstr(fmt::format("'{}'", text)));
    }
  }
  Says("0.5");
  EXPECT_TRUE(source->Read());
}

TEST_F(File, BytesThatAreNoTextAreShownEscaped) {
  Says(std::string_view("\xff\0\x1b[2J", 6));
  EXPECT_THAT(WhyNot(FileKind(), At()).message, HasSubstr("'\\xff\\x00\\x1b[2J'"));
}

TEST_F(File, AVanishedFileIsAnErrorUntilItIsBack) {
  EXPECT_EQ(WhyNot(FileKind(), At()).code, Code::kUnavailable);
  Says("0.5");
  const auto source = Open(FileKind(), At());
  tree_.Remove("pressure");
  EXPECT_THAT(source->Read().error().message, HasSubstr("is not there"));
  Says("0.25");
  EXPECT_NEAR(source->Read().value().pressure(), 0.25, 1e-11);
}

TEST_F(File, WhatIsNoSmallFileIsAnErrorAtOnce) {
  EXPECT_EQ(WhyNot(FileKind()).code, Code::kInvalidArgument);
  EXPECT_THAT(WhyNot(FileKind(), tree_.Path("")).message, HasSubstr("a directory"));
  ASSERT_EQ(::mkfifo(At().c_str(), 0600), 0);
  EXPECT_THAT(WhyNot(FileKind(), At()).message, HasSubstr("a FIFO"));
  EXPECT_THAT(WhyNot(FileKind(), "/dev/zero").message, HasSubstr("a device"));
  ASSERT_EQ(::unlink(At().c_str()), 0);
  Says("0.5" + std::string(4093, '\n'));
  EXPECT_TRUE(FileKind().Open(tree_.Machine(), At()));
  Says("0.5" + std::string(4094, '\n'));
  EXPECT_THAT(WhyNot(FileKind(), At()).message, HasSubstr("longer than 4096"));
}

TEST_F(File, AFileWeMayNotReadIsAnError) {
  Says("0.5");
  ASSERT_EQ(::chmod(At().c_str(), 0), 0);
  // Root may read any file, so become another user.
  const uid_t before = ::geteuid();
  constexpr uid_t kNobody = 65534;
  if (before == 0) {
    ASSERT_EQ(::seteuid(kNobody), 0);
  }
  const std::string why = WhyNot(FileKind(), At()).message;
  ASSERT_EQ(::seteuid(before), 0);
  EXPECT_THAT(why, HasSubstr("Permission denied"));
}

TEST_F(File, CannotBeFoundByLooking) {
  EXPECT_THAT(FileKind().Look(tree_.Machine()).found, IsEmpty());
  EXPECT_THAT(FileKind().Look(tree_.Machine()).why_not, HasSubstr("needs a path: file:/"));
}

// --- fixed ---

TEST_F(FileSources, AFixedPressureStays) {
  for (const auto& [text, share] :
       {std::pair{"0.5", 0.5}, {"0", 0.0}, {"1", 1.0}, {"0.85", 0.85}}) {
    const auto source = Open(FixedKind(), text);
    EXPECT_EQ(source->name(), fmt::format("fixed:{}", text));
    EXPECT_NEAR(source->Read().value().pressure(), share, 1e-11);
    EXPECT_EQ(source->Read().value().scope, Scope::kGiven);
  }
}

TEST_F(FileSources, AFixedPressureIsAShare) {
  for (const char* text : {"", " ", "x", "-0.1", "1.1", "nan", "50%", "0.5 ", "1e9"}) {
    EXPECT_EQ(WhyNot(FixedKind(), text).code, Code::kInvalidArgument) << text;
  }
  EXPECT_THAT(WhyNot(FixedKind(), "2").message, HasSubstr("'2'"));
  EXPECT_EQ(FixedKind().Look(tree_.Machine()).why_not, "needs a share: fixed:0.5");
}

}  // namespace
}  // namespace spillway
