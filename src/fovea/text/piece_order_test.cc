#include "fovea/text/piece_order.h"

#include <gtest/gtest.h>

#include "fovea/base/test_message.h"
#include "fovea/text/sentencepiece_model.h"
#include "fovea/text/vocab.h"

namespace fovea::text::piece_order_test {
namespace {

using Ids = std::vector<int64_t>;

// Characters: </s>, <unk>, a, b, c.
std::string letters() { return write_counted_model(VocabType::kChar, {{"a", 3}, {"b", 2}, {"c", 1}}); }

TEST(PieceOrder, MarksOfLanguagesStandAtTheBeginningAlone) {
  const std::vector<std::string> order = {"<pad>", "b", "</s>", ">>de<<", "a", "<unk>", ">>fra<<", "<extra>"};
  for (const NewPieces how : {NewPieces::kPrintTheirName, NewPieces::kPrintNothing}) {
    const bool prints = how == NewPieces::kPrintTheirName;
    const OrderedModel ordered = with_piece_order(letters(), order, "x", how);
    EXPECT_EQ(ordered.dropped, 1) << "c";
    const Vocab vocab = Vocab::from_bytes(ordered.bytes, "x");
    EXPECT_EQ(vocab.language_codes(), (std::vector<std::string>{"de", "fra"}));
    EXPECT_EQ(vocab.language_piece("fra"), 6);
    EXPECT_FALSE(vocab.language_piece("fr"));
    EXPECT_EQ(vocab.encode(">>fra<<ab"), (Ids{6, 4, 1}));
    EXPECT_EQ(vocab.encode("ab"), (Ids{4, 1}));
    EXPECT_EQ(vocab.surface(3), prints ? ">>de<<" : "");
    EXPECT_EQ(vocab.decode({3, 4, 1}), prints ? ">>de<<ab" : "ab");
    EXPECT_EQ(vocab.surface(7), prints ? "<extra>" : "");
    EXPECT_EQ(vocab.surface(0), "");
  }
}

TEST(PieceOrder, SaysWhatTheListLacks) {
  const auto refusal = [](const std::vector<std::string>& order) {
    return message_of([&] { with_piece_order(letters(), order, "x"); });
  };
  EXPECT_EQ(refusal({"a", "</s>"}), "x: the list of pieces lacks the model's piece for unknown text, '<unk>'");
  EXPECT_EQ(refusal({"a", "<unk>"}), "x: the list of pieces lacks '</s>'");
  EXPECT_EQ(refusal({"a", "a", "<unk>", "</s>"}), "x: the piece 'a' has two numbers");
  EXPECT_EQ(message_of([&] { with_piece_order("abc", {"a"}, "x"); }),
            "x: is not a SentencePiece model, or is cut short");
}

}  // namespace
}  // namespace fovea::text::piece_order_test
