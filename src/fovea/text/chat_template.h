#pragma once
#include <cstdint>
#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::text {

struct ChatMessage {
  std::string role, content;
};

// The values that a template knows besides the messages.
struct ChatSettings {
  std::string begin, end;       // bos_token and eos_token; "" is none
  bool asks_for_answer = true;  // add_generation_prompt
  std::time_t now = 0;          // of strftime_now(), in the machine's time zone
};

struct ChatNode;

// A template of Hugging Face's folders, which writes a conversation as a text: the part of Jinja of which those of
// ChatML, Llama 3, Mistral and Gemma consist. It gives the text of transformers' apply_chat_template().
class ChatTemplate {
 public:
  // Throws an Error that begins with `origin` for syntax that is not read.
  ChatTemplate(std::string_view text, const std::string& origin);

  // Throws an Error if the template refuses the conversation, uses something that is not known here, or works or writes
  // without an end.
  std::string render(std::span<const ChatMessage> messages, const ChatSettings& settings) const;

 private:
  std::string origin_;
  std::shared_ptr<const std::vector<ChatNode>> nodes_;
};

}  // namespace fovea::text
