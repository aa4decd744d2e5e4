// JSON, as much of it as the manifest of an artifact has (docs/artifact.md). Whatever is wrong with it is one error that says so.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

[[noreturn]] inline void fail(const std::string &message) { throw std::runtime_error(message); }

struct Json {
    enum Kind { NUL, NUMBER, TEXT, LIST, OBJECT };

    Kind kind = NUL;  // true and false are numbers
    double number = 0;
    std::string text;
    std::vector<Json> items;
    std::map<std::string, Json> members;

    const Json *find(const char *name) const {
        auto found = members.find(name);
        return found == members.end() || found->second.kind == NUL ? nullptr : &found->second;
    }
    const Json &operator[](const char *name) const {
        if (const Json *found = find(name)) return *found;
        fail(std::string("the manifest has no entry ") + name);
    }
    const Json &at(size_t index) const {
        if (index >= items.size()) fail("the manifest has a list that is too short");
        return items[index];
    }
    operator int64_t() const {
        if (kind != NUMBER || !(number > -9e15 && number < 9e15)) fail("the manifest has something else where a number is due");
        return static_cast<int64_t>(number);
    }
    std::vector<int64_t> numbers() const {
        std::vector<int64_t> found;
        for (const Json &item : items) found.push_back(item);
        return found;
    }
    std::vector<std::string> texts() const {
        std::vector<std::string> found;
        for (const Json &item : items) found.push_back(item.text);
        return found;
    }
};

class JsonReader {
  public:
    explicit JsonReader(const std::string &text) : at_(text.c_str()) {}

    Json value(int depth = 0) {
        if (depth > 100) fail("the manifest is too deep");
        Json made;
        switch (peek()) {
        case '{':
            made.kind = Json::OBJECT;
            for (char before = next(); before != '}'; before = end_or_comma('}')) {
                if (peek() == '}') continue;  // there are no more
                std::string name = string();
                if (next() != ':') fail("the manifest is no JSON: no colon");
                made.members[name] = value(depth + 1);
            }
            break;
        case '[':
            made.kind = Json::LIST;
            for (char before = next(); before != ']'; before = end_or_comma(']'))
                if (peek() != ']') made.items.push_back(value(depth + 1));
            break;
        case '"': made.kind = Json::TEXT, made.text = string(); break;
        case 't': word("true"), made.kind = Json::NUMBER, made.number = 1; break;
        case 'f': word("false"), made.kind = Json::NUMBER; break;
        case 'n': word("null"); break;
        default: {
            char *end;
            made.kind = Json::NUMBER, made.number = std::strtod(at_, &end);
            if (end == at_) fail("the manifest is no JSON");
            at_ = end;
        }
        }
        return made;
    }

  private:
    char peek() { return at_ += std::strspn(at_, " \t\r\n"), *at_; }
    char next() { return peek() ? *at_++ : (fail("the manifest ends too early"), '\0'); }
    char end_or_comma(char end) {
        const char found = next();
        if (found != end && found != ',') fail("the manifest is no JSON: no comma");
        return found;
    }
    void word(const char *wanted) {
        if (std::strncmp(at_, wanted, std::strlen(wanted))) fail("the manifest is no JSON");
        at_ += std::strlen(wanted);
    }
    std::string string() {
        std::string made;
        if (next() != '"') fail("the manifest is no JSON: no name");
        while (*at_ && *at_ != '"') {
            if (*at_ == '\\')
                escaped(made);
            else
                made += *at_++;
        }
        if (!*at_) fail("the manifest ends too early");
        return ++at_, made;
    }
    void escaped(std::string &made) {
        const char kind = *++at_;
        if (!kind) fail("the manifest ends too early");
        ++at_;
        const char *plain = std::strchr("bfnrt", kind);
        if (kind == 'u')
            utf8(made, code());
        else
            made += plain ? "\b\f\n\r\t"[plain - std::strchr("bfnrt", 'b')] : kind;
    }
    unsigned hex() {
        unsigned made = 0;
        for (int digit = 0; digit < 4; ++digit, ++at_) {
            const char *place = *at_ ? std::strchr("0123456789abcdef0123456789ABCDEF", *at_) : nullptr;
            if (!place) fail("the manifest is no JSON: a bad \\u");
            made = made * 16 + static_cast<unsigned>(place - std::strchr("0123456789abcdef0123456789ABCDEF", '0')) % 16;
        }
        return made;
    }
    unsigned code() {  // of one character, which may be a pair of surrogates
        const unsigned high = hex();
        if ((high & 0xFC00) != 0xD800 || at_[0] != '\\' || at_[1] != 'u') return high;
        at_ += 2;
        return 0x10000 + ((high & 0x3FF) << 10) + (hex() & 0x3FF);
    }
    static void utf8(std::string &made, unsigned code) {
        const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
        static const unsigned first[] = {0, 0xC0, 0xE0, 0xF0};
        made += static_cast<char>(first[more] | code >> 6 * more);
        for (int left = more; left-- > 0;) made += static_cast<char>(0x80 | (code >> 6 * left & 0x3F));
    }
    const char *at_;
};
