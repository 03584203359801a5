#include "fovea/nn/checkpoint.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_aside.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"
#include "fovea/nn/checkpoint_average.h"
#include "fovea/nn/test_checkpoints.h"

namespace fovea::nn::checkpoint_test {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names(const std::vector<fs::path>& paths) {
  std::vector<std::string> out;
  for (const fs::path& path : paths) out.push_back(path.filename());
  return out;
}

void flip(const fs::path& path, size_t byte) {
  std::string bytes = read_file(path);
  bytes.at(byte) = static_cast<char>(bytes[byte] ^ 4);
  write_file(path, bytes);
}

// Writes another config.yml with its right checksum.
void edit_config(const fs::path& checkpoint, std::string_view from, std::string_view to) {
  std::string config = read_file(checkpoint / "config.yml"), sums = read_file(checkpoint / "checksums.yml");
  const std::string old_sum = checksum(config);
  config.replace(config.find(from), from.size(), to);
  sums.replace(sums.find(old_sum), old_sum.size(), checksum(config));
  write_file(checkpoint / "config.yml", config);
  write_file(checkpoint / "checksums.yml", sums);
}

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}

TEST(Checkpoint, ReadsBackAndIsTheSameBytesEachTime) {
  const TestFolder run;
  const fs::path path = save(run.path(), 7);
  const Checkpoint saved = some_checkpoint(7), loaded = load_checkpoint(path, Load::kAll);
  const EncoderDecoderConfig config = config_of(loaded);
  EXPECT_EQ(config.dim_emb, 12);
  EXPECT_EQ(config.attention, "topk(8)+relu");
  EXPECT_EQ(config.attention_layers, config_of(saved).attention_layers);
  EXPECT_EQ(loaded.identity.task, saved.identity.task);
  EXPECT_EQ(loaded.identity.files, saved.identity.files);
  EXPECT_EQ(loaded.progress, saved.progress);
  EXPECT_TRUE(loaded.model.at("a.weight").equal(saved.model.at("a.weight")));
  EXPECT_TRUE(loaded.optimizer.at("mean/b").equal(saved.optimizer.at("mean/b")));
  EXPECT_TRUE(load_checkpoint(path, Load::kModel).optimizer.empty());
  const std::string other = run / "other/";
  save_checkpoint(other, saved);
  for (const fs::path& file : files_of(path)) EXPECT_EQ(read_file(file), read_file(other / file.filename())) << file;
  EXPECT_EQ(files_of(path).size(), 7U);
}

// A missing, empty, cut or altered file of a checkpoint that is asked for by name is refused with the file's name.
TEST(Checkpoint, EveryDamageIsRefusedWithTheFilesName) {
  const TestFolder run;
  const fs::path good = save(run.path(), 7);
  const fs::path bad = run.path() / "bad";
  const auto refusal = [&](const fs::path& file, const std::function<void(const fs::path&)>& damage) {
    fs::remove_all(bad);
    fs::copy(good, bad, fs::copy_options::recursive);
    damage(bad / file);
    return message_of([&] { load_checkpoint(bad, Load::kAll); });
  };
  for (const fs::path& path : files_of(good)) {
    const fs::path file = path.filename();
    const bool is_sums = file == "checksums.yml";
    const std::string content = read_file(path);
    // A folder without its checksums is not a checkpoint.
    EXPECT_THAT(refusal(file, [](const fs::path& p) { fs::remove(p); }), HasSubstr(is_sums ? bad : bad / file));
    for (size_t i = 0; i < 24; ++i) {
      const size_t at = content.size() * i / 24;
      const auto cut = [&](const fs::path& p) { write_file(p, content.substr(0, at)); };
      const auto altered = [&](const fs::path& p) { flip(p, at); };
      for (const std::string& text : {refusal(file, cut), refusal(file, altered)}) {
        // An altered checksum or name in checksums.yml is reported of the file that it speaks of.
        EXPECT_THAT(text, HasSubstr(is_sums ? bad : bad / file)) << at;
        EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      }
    }
  }
}

TEST(Checkpoint, NamesTheDamagedTensor) {
  const TestFolder run;
  const fs::path model = save(run.path(), 7) / "model.safetensors";
  flip(model, read_file(model).size() - 2);  // the last tensor by name is b
  EXPECT_THAT(message_of([&] { load_checkpoint(run.path() / "last", Load::kModel); }),
              AllOf(HasSubstr(model.filename()), HasSubstr("tensor 'b' does not have its checksum")));
}

TEST(Checkpoint, SaysThatItIsOfAnotherVersion) {
  const TestFolder run;
  const fs::path path = save(run.path(), 7);
  edit_config(path, "checkpoint-format: 2", "checkpoint-format: 9\nnew-field: 3");
  EXPECT_THAT(message_of([&] { load_checkpoint(path, Load::kModel); }), HasSubstr("checkpoint format 9, this fovea"));
}

TEST(Checkpoint, RefusesAConfigurationThatNoModelCanHave) {
  const TestFolder run;
  const fs::path path = run.path() / "changed", config = path / "config.yml";
  const auto refusal = [&](std::string_view from, std::string_view to) {
    save_checkpoint(path, some_checkpoint(7));
    edit_config(path, from, to);
    return message_of([&] { config_of(load_checkpoint(path, Load::kModel)); });
  };
  EXPECT_EQ(refusal("dim-emb: 12", "dim-ebm: 12"),
            cat(config.string(), ":4: unknown key 'dim-ebm'; did you mean 'dim-emb'?"));
  EXPECT_EQ(refusal("dim-emb: 12", ""),
            cat(config.string(), ": the key 'dim-emb' is missing; expected every option of the model"));
  EXPECT_THAT(refusal("heads: 2", "heads: 5"), AllOf(HasSubstr(config), HasSubstr("not a multiple of")));
  EXPECT_THAT(refusal("encoder.1=", "cross.9="), AllOf(HasSubstr(config), HasSubstr("got layer 9 in 'cross.9=")));
  const std::string message = refusal("topk(8)+relu", "nonsense");
  EXPECT_THAT(message, AllOf(HasSubstr(config), HasSubstr("'nonsense'")));
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

TEST(Checkpoint, RefusesTensorsThatAreNotFloating) {
  const TestFolder run;
  for (const auto& [type, name] : {std::pair(at::kLong, "I64"), {at::kByte, "U8"}, {at::kBool, "BOOL"}}) {
    Checkpoint checkpoint = some_checkpoint(7);
    checkpoint.model["b"] = at::ones({4}, type);
    save_checkpoint(run / "x", checkpoint);
    EXPECT_EQ(message_of([&] { load_checkpoint(run / "x", Load::kModel); }),
              cat(run / "x/model.safetensors", ": tensor 'b' has the type ", name,
                  "; expected F32 or another floating-point type"));
  }
  Checkpoint half = some_checkpoint(7);
  half.model["b"] = at::ones({4}, at::kHalf);
  save_checkpoint(run / "x", half);
  EXPECT_EQ(load_checkpoint(run / "x", Load::kModel).model.at("b").scalar_type(), at::kHalf);
}

TEST(Checkpoint, SaysWhatTheSystemRefuses) {
  const TestFolder run;
  const fs::path loop = run.path() / "loop";
  fs::create_directory_symlink(loop, loop);
  const std::string loops =
      cat("cannot read '", loop.string(), "': Too many levels of symbolic links; check the path and its permissions");
  const std::string long_name = run / std::string(300, 'a');
  EXPECT_EQ(message_of([&] { load_checkpoint(loop, Load::kModel, "--pretrained-model"); }),
            "--pretrained-model: " + loops);
  EXPECT_THAT(message_of([&] { load_checkpoint(long_name, Load::kModel); }), HasSubstr("File name too long"));
  EXPECT_THAT(message_of([&] { list_checkpoints(loop); }), HasSubstr("--model: cannot read"));
  EXPECT_THAT(message_of([&] { save_checkpoint(loop, some_checkpoint(1)); }), HasSubstr("cannot read"));
  save(run.path(), 1);
  EXPECT_EQ(message_of([&] { average_checkpoints({run.path(), 1}, loop); }), "--output: " + loops);
  EXPECT_THAT(message_of([&] { average_checkpoints({run.path(), 1}, long_name); }), HasSubstr("File name too long"));
}

TEST(Checkpoint, SaysWhatIsNotOne) {
  const TestFolder run;
  EXPECT_THAT(message_of([&] { load_checkpoint(run / "none", Load::kModel); }), HasSubstr("no such folder"));
  EXPECT_THAT(message_of([&] { load_checkpoint(run.path(), Load::kModel); }), HasSubstr("neither a checkpoint nor"));
  EXPECT_THAT(message_of([&] { load_checkpoint(run.path(), Load::kAll); }), HasSubstr("no whole checkpoint"));
  write_file(run / "file", "x");
  EXPECT_THAT(message_of([&] { load_checkpoint(run / "file", Load::kModel); }), HasSubstr("is a file"));
  EXPECT_THAT(message_of([&] { save_checkpoint(run.path(), some_checkpoint(1)); }), HasSubstr("is not a checkpoint"));
  Checkpoint model_alone = some_checkpoint(1);
  model_alone.optimizer.clear();
  model_alone.progress.clear();
  save_checkpoint(run / "average", model_alone);
  EXPECT_THAT(message_of([&] { load_checkpoint(run / "average", Load::kAll); }), HasSubstr("a model alone"));
}

TEST(Checkpoint, ResumingGoesBackToTheNewestWholeOne) {
  const TestFolder run;
  const fs::path first = save(run.path(), 10), second = save(run.path(), 20), third = save(run.path(), 30);
  EXPECT_EQ(load_checkpoint(run.path(), Load::kAll).progress.at("updates"), "30");
  flip(third / "optimizer.safetensors", 20);
  EXPECT_EQ(load_checkpoint(run.path(), Load::kAll).progress.at("updates"), "20");
  EXPECT_THAT(message_of([&] { load_checkpoint(third, Load::kAll); }), HasSubstr("optimizer.safetensors"));
  EXPECT_EQ(config_of(load_checkpoint(third, Load::kModel)).dim_emb, 12) << "its model is whole";
  write_file(second / "progress.yml", "");
  EXPECT_EQ(load_checkpoint(run.path(), Load::kAll).progress.at("updates"), "10");
  fs::remove(first / "source.spm");
  EXPECT_THAT(message_of([&] { load_checkpoint(run.path(), Load::kAll); }),
              AllOf(HasSubstr("no whole checkpoint"), HasSubstr("optimizer.safetensors")));
}

TEST(Checkpoint, ResumingHeedsWhatLastNames) {
  const TestFolder run;
  const fs::path first = save(run.path(), 99'999'998), second = save(run.path(), 99'999'999);
  save(run.path(), 100'000'000);
  EXPECT_EQ(resumed(run.path()), "100000000");
  link_checkpoint(run.path(), "last", second);
  EXPECT_EQ(resumed(run.path()), "99999999");
  link_checkpoint(run.path(), "best", first);
  fs::remove(run.path() / "last");
  fs::create_directory_symlink("best", run.path() / "last");
  EXPECT_EQ(resumed(run.path()), "99999998");
}

TEST(Checkpoint, ResumingACopyHeedsWhatLastOfTheOriginalNames) {
  const TestFolder original, copy;
  const fs::path first = save(original.path(), 10);
  save(original.path(), 20);
  save(copy.path(), 10);
  save(copy.path(), 20);
  fs::remove(copy.path() / "last");
  fs::create_directory_symlink(first, copy.path() / "last");  // absolute, as users make them
  EXPECT_EQ(resumed(copy.path()), "10");
  fs::remove(copy.path() / "last");
  fs::copy(first, copy.path() / "last", fs::copy_options::recursive);
  EXPECT_EQ(resumed(copy.path()), "10");
  fs::resize_file(copy.path() / "last" / "progress.yml", 3);
  EXPECT_EQ(resumed(copy.path()), "20");
}

TEST(Checkpoint, CleaningLeavesAUsersFolders) {
  const TestFolder run;
  const fs::path whole = save(run.path(), 10), checkpoints = whole.parent_path();
  fs::create_directories(run.path() / "best.tmp_mine" / "notes");
  for (const char* link : {"last.tmp123", "last.tmp-mine"})
    fs::create_directory_symlink("checkpoints/update-00000010", run.path() / link);
  const std::vector<std::string> own = {"update-00000010.old-good",   "update-00000010.tmp_mine", "update-00000020.old",
                                        "update-00000020.old7-good",  "update-00000010.tmp2025",  "update-00000010.1",
                                        "update-00000010.tmp2025.old"};
  for (const std::string& name : own) fs::copy(whole, checkpoints / name, fs::copy_options::recursive);
  clean_checkpoints(run.path());
  EXPECT_TRUE(fs::exists(run.path() / "best.tmp_mine" / "notes"));
  EXPECT_TRUE(fs::is_symlink(run.path() / "last.tmp123"));
  EXPECT_TRUE(fs::is_symlink(run.path() / "last.tmp-mine"));
  for (const std::string& name : own) EXPECT_TRUE(is_checkpoint(checkpoints / name)) << name;
  for (const std::string& name : own) {
    EXPECT_THAT(message_of([&] { remove_checkpoints(run.path()); }), HasSubstr("' is not a checkpoint"));
    EXPECT_TRUE(is_checkpoint(checkpoints / name)) << name;
    fs::remove_all(checkpoints / name);
  }
  EXPECT_THAT(names(list_checkpoints(run.path())), ElementsAre("update-00000010"));
}

TEST(Checkpoint, AUsersFileInAFolderOfACheckpointStays) {
  const TestFolder run;
  for (const int64_t updates : {10, 20, 30}) save(run.path(), updates);
  const fs::path notes = run.path() / "checkpoints/update-00000010/notes.txt";
  write_file(notes, "precious");
  EXPECT_THAT(message_of([&] { remove_checkpoints(run.path()); }), HasSubstr("notes.txt' is not a file of the checkp"));
  EXPECT_EQ(list_checkpoints(run.path()).size(), 3U);
  EXPECT_THAT(message_of([&] { save(run.path(), 10); }), HasSubstr("notes.txt' is not a file of the checkpoint there"));
  link_checkpoint(run.path(), "last", checkpoint_path(run.path(), 30));
  prune_checkpoints(run.path(), {.keep = 1});
  EXPECT_THAT(names(list_checkpoints(run.path())), ElementsAre("update-00000030"));
  EXPECT_EQ(read_file(notes), "precious");
  EXPECT_EQ(files_of(notes.parent_path()).size(), 1U);
}

TEST(Checkpoint, CleaningMovesACutOffCopyAside) {
  const TestFolder run;
  save(run.path(), 10);
  const fs::path cut_off = save(run.path(), 20);
  fs::remove(cut_off / "checksums.yml");
  clean_checkpoints(run.path());
  EXPECT_FALSE(fs::exists(cut_off));
  EXPECT_TRUE(fs::exists(cut_off.string() + ".1/model.safetensors"));
  EXPECT_EQ(resumed(run.path()), "10");
  save(run.path(), 20);
  EXPECT_EQ(resumed(run.path()), "20");
  clean_checkpoints(run.path());
  EXPECT_TRUE(fs::exists(cut_off.string() + ".1"));
  EXPECT_THAT(message_of([&] { remove_checkpoints(run.path()); }), HasSubstr(".1' is not a checkpoint; move it away"));
  fs::remove_all(cut_off.string() + ".1");
  remove_checkpoints(run.path());
  EXPECT_FALSE(fs::exists(run.path() / "checkpoints"));
}

// Folders in place of the links, as cp -rL leaves them.
TEST(Checkpoint, CopiesInPlaceOfTheLinksGiveWay) {
  const TestFolder run;
  const fs::path last = run.path() / "last", best = run.path() / "best";
  const fs::path first = save(run.path(), 10), second = save(run.path(), 20);
  fs::remove(last);
  fs::copy(second, last, fs::copy_options::recursive);
  fs::copy(first, best, fs::copy_options::recursive);
  EXPECT_EQ(resumed(run.path()), "20");
  prune_checkpoints(run.path(), {.keep = 1});
  EXPECT_EQ(list_checkpoints(run.path()).size(), 2U) << "the folder best names the first";
  link_checkpoint(run.path(), "last", second);
  EXPECT_EQ(fs::read_symlink(last), "checkpoints/update-00000020");
  unlink_checkpoint(run.path(), "best");
  EXPECT_FALSE(fs::exists(best));
  unlink_checkpoint(run.path(), "last");
  EXPECT_THAT(run.names(), ElementsAre("checkpoints"));
  EXPECT_EQ(list_checkpoints(run.path()).size(), 2U);
  fs::copy(first, best, fs::copy_options::recursive);
  remove_checkpoints(run.path());
  EXPECT_TRUE(run.names().empty());
}

// A folder in place of a link that holds anything but a copy of a checkpoint of the run stays.
TEST(Checkpoint, OtherFoldersInPlaceOfTheLinksAreMovedAside) {
  const TestFolder run;
  const fs::path last = run.path() / "last", first = save(run.path(), 10);
  const std::vector<std::function<void()>> changes = {
      [&] { write_file(last / "notes.txt", "precious"); },
      [&] { flip(last / "model.safetensors", 100); },
      [&] { fs::remove(last / "checksums.yml"); },
      [&] { fs::create_directory(last / "more"); },
      [&] { edit_config(last, "dim-emb: 12", "dim-emb: 16"); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    fs::remove(last);
    fs::copy(first, last, fs::copy_options::recursive);
    changes[i]();
    const size_t files = files_of(last).size();
    if (i % 2 == 0) link_checkpoint(run.path(), "last", first);
    if (i % 2 == 1) unlink_checkpoint(run.path(), "last");
    EXPECT_EQ(fs::is_symlink(last), i % 2 == 0);
    EXPECT_EQ(files_of(run.path() / cat("last.", i + 1)).size(), files) << i;
  }
  fs::create_directory(run.path() / "best");
  unlink_checkpoint(run.path(), "best");
  EXPECT_TRUE(fs::exists(run.path() / "best.1"));
}

TEST(Checkpoint, ModelsAreTheBestOneOrTheLast) {
  const TestFolder run;
  const fs::path first = save(run.path(), 10);
  save(run.path(), 20);
  EXPECT_FLOAT_EQ(load_checkpoint(run.path(), Load::kModel).model.at("a.weight")[0][0].item<float>(), 20);
  link_checkpoint(run.path(), "best", first);
  EXPECT_FLOAT_EQ(load_checkpoint(run.path(), Load::kModel).model.at("a.weight")[0][0].item<float>(), 10);
  EXPECT_EQ(fs::read_symlink(run.path() / "best"), "checkpoints/update-00000010");
}

// If the links were not followed, files of two checkpoints would mix, or those of the first would be gone.
TEST(Checkpoint, LinksThatMoveWhileReadingAreFollowed) {
  const TestFolder run;
  save(run.path(), 1);
  std::atomic<bool> stop = false;
  std::thread training([&] {
    for (int64_t updates = 2; !stop; ++updates) {
      save(run.path(), updates);
      prune_checkpoints(run.path(), {});
    }
  });
  const std::string none = message_of([] {});
  std::string problem = none;
  for (int i = 0; i < 500 && problem == none; ++i)
    problem = message_of([&] { load_checkpoint(i % 2 == 0 ? run.path() : run.path() / "last/", Load::kModel); });
  stop = true;
  training.join();
  EXPECT_EQ(problem, none);
}

TEST(Checkpoint, PruningKeepsTheNewestTheBestAndTheLast) {
  const TestFolder run;
  for (const int64_t updates : {10, 20, 25, 30, 40, 45}) save(run.path(), updates, "10");
  link_checkpoint(run.path(), "best", checkpoint_path(run.path(), 10));
  prune_checkpoints(run.path(), {.keep = 2});
  EXPECT_THAT(names(list_checkpoints(run.path())),
              ElementsAre("update-00000010", "update-00000030", "update-00000040", "update-00000045"));
}

TEST(Checkpoint, PruningKeepsWhatAnotherSaveFreqMade) {
  const TestFolder run;
  for (const int64_t updates : {10, 15, 20, 30}) save(run.path(), updates, "10");
  for (const int64_t updates : {35, 40, 42}) save(run.path(), updates, "7");
  prune_checkpoints(run.path(), {.keep = 4});
  EXPECT_THAT(names(list_checkpoints(run.path())),
              ElementsAre("update-00000020", "update-00000030", "update-00000035", "update-00000042"));
  save(run.path(), 45, "0");
  save(run.path(), 49, "x");
  prune_checkpoints(run.path(), {.keep = 2});
  EXPECT_THAT(names(list_checkpoints(run.path())), ElementsAre("update-00000045", "update-00000049"));
}

TEST(Checkpoint, CleaningRemovesWhatAKilledProcessLeft) {
  const TestFolder run;
  const fs::path whole = save(run.path(), 10), checkpoints = whole.parent_path();
  left_by_killed(checkpoints,
                 [&](const MarkedFolder& aside) { fs::copy(whole, aside / "new1", fs::copy_options::recursive); });
  left_by_killed(run.path(), [&](const MarkedFolder& aside) { fs::create_directory_symlink("x", aside / "last"); });
  EXPECT_THAT(names(list_checkpoints(run.path())), ElementsAre("update-00000010"));
  EXPECT_EQ(files_of(checkpoints).size(), 2U);
  clean_checkpoints(run.path());
  EXPECT_EQ(files_of(checkpoints).size(), 1U);
  EXPECT_TRUE(std::ranges::none_of(run.names(), [](const std::string& name) { return name.starts_with(".fovea-"); }));
}

// As it is where two names cannot be exchanged.
TEST(Checkpoint, CleaningBringsBackWhatAKilledProcessDidNotReplace) {
  const TestFolder run;
  const fs::path whole = save(run.path(), 30), checkpoints = whole.parent_path();
  left_by_killed(checkpoints, [&](const MarkedFolder& aside) {
    fs::create_directory(aside / "new1");
    const std::string name = aside.path().filename();
    write_file(aside / "list", cat("Fovea replaces these files together:\n", "update-00000030", '\0', name, "/new1",
                                   '\0', name, "/old1", '\0', '\0'));
    fs::rename(whole, aside / "old1");
  });
  EXPECT_TRUE(list_checkpoints(run.path()).empty());
  clean_checkpoints(run.path());
  EXPECT_EQ(files_of(checkpoints).size(), 1U);
  EXPECT_EQ(load_checkpoint(run.path(), Load::kAll).progress.at("updates"), "30") << "it was whole under its old name";
}

}  // namespace
}  // namespace fovea::nn::checkpoint_test
