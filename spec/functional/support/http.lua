--- A small HTTP client on libcurl with kept connections: a poll costs about a millisecond, a curl process ten.
local ffi = require "ffi"
local cjson = require "cjson"

pcall(ffi.cdef, [[
typedef struct tidelock_file tidelock_file;
tidelock_file *open_memstream(char **text, size_t *size);
int fclose(tidelock_file *file);
void free(void *memory);
struct curl_slist;
void *curl_easy_init(void);
void curl_easy_cleanup(void *handle);
int curl_easy_setopt(void *handle, int option, ...);
int curl_easy_perform(void *handle);
int curl_easy_getinfo(void *handle, int info, ...);
const char *curl_easy_strerror(int code);
struct curl_slist *curl_slist_append(struct curl_slist *list, const char *text);
void curl_slist_free_all(struct curl_slist *list);
]])
local curl = ffi.load("libcurl.so.4")

local URL, WRITEDATA, HEADERDATA, HTTPHEADER, CUSTOMREQUEST = 10002, 10001, 10029, 10023, 10036
local COPYPOSTFIELDS, POSTFIELDSIZE, POST, HTTPGET = 10165, 60, 47, 80
local CAINFO, TIMEOUT_MS, NOSIGNAL, NOPROXY = 10065, 155, 99, 10177
local RESPONSE_CODE = 0x200002

local http = {}
local Client = {}
Client.__index = Client

--- options: base (URL put before every path), ca (file), token, timeout (seconds).
function http.client(options)
    local handle = ffi.gc(curl.curl_easy_init(), curl.curl_easy_cleanup)
    return setmetatable({ handle = handle, options = options }, Client)
end

function Client:set_number(option, value)
    curl.curl_easy_setopt(self.handle, option, ffi.cast("long", value))
end

function Client:set_text(option, value)
    curl.curl_easy_setopt(self.handle, option, ffi.cast("const char *", value))
end

-- What curl writes to a stdio stream: no callback from C into Lua is needed.
local function memory_stream()
    local text, size = ffi.new("char *[1]"), ffi.new("size_t[1]")
    local file = ffi.C.open_memstream(text, size)
    return file, function()
        ffi.C.fclose(file)
        local result = ffi.string(text[0], size[0])
        ffi.C.free(text[0])
        return result
    end
end

--- Status, body as text, headers as text; nil and a reason when no answer came.
function Client:request(method, path, body, content_type)
    local headers
    local function header(line)
        headers = curl.curl_slist_append(headers, line)
    end
    header "Expect:"
    if self.options.token then
        header("Authorization: Bearer " .. self.options.token)
    end
    if body then
        header("Content-Type: " .. (content_type or "application/json"))
    end

    self:set_text(URL, (self.options.base or "") .. path)
    self:set_number(NOSIGNAL, 1)
    self:set_text(NOPROXY, "*")
    self:set_number(TIMEOUT_MS, (self.options.timeout or 30) * 1000)
    if self.options.ca then
        self:set_text(CAINFO, self.options.ca)
    end
    self:set_number(body and POST or HTTPGET, 1)
    if body then
        self:set_number(POSTFIELDSIZE, #body)
        self:set_text(COPYPOSTFIELDS, body)
    end
    self:set_text(CUSTOMREQUEST, method)
    curl.curl_easy_setopt(self.handle, HTTPHEADER, headers)
    local out, take_body = memory_stream()
    local header_out, take_headers = memory_stream()
    curl.curl_easy_setopt(self.handle, WRITEDATA, out)
    curl.curl_easy_setopt(self.handle, HEADERDATA, header_out)
    local code = curl.curl_easy_perform(self.handle)
    curl.curl_slist_free_all(headers)
    local text, header_text = take_body(), take_headers()
    if code ~= 0 then
        return nil, ffi.string(curl.curl_easy_strerror(code))
    end
    local status = ffi.new("long[1]")
    curl.curl_easy_getinfo(self.handle, RESPONSE_CODE, status)
    return tonumber(status[0]), text, header_text
end

--- The decoded answer of a JSON API; nil for 404 (and, with `missing_ok`, nothing else); any other failure raises.
function Client:json(method, path, object, content_type)
    local body = object and (type(object) == "string" and object or cjson.encode(object))
    local status, text = self:request(method, path, body, content_type)
    if not status then
        error(("%s %s: %s"):format(method, path, text), 2)
    end
    if status == 404 then
        return nil, text
    end
    if status >= 300 then
        error(("%s %s: HTTP %d: %s"):format(method, path, status, text), 2)
    end
    return cjson.decode(text)
end

return http
