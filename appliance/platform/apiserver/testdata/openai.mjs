// SPDX-License-Identifier: MIT
//
// Drives the API with OpenAI's own client: node openai.mjs <client's index.mjs> <base URL> <key>
import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";

const [, , lib, baseURL, apiKey] = process.argv;
const { default: OpenAI } = await import(pathToFileURL(lib));
const client = new OpenAI({ baseURL, apiKey, maxRetries: 2, timeout: 300000 });
const user = (content) => ({ model: "hermes-agent", messages: [{ role: "user", content }] });
const ran = (text, command) => assert.match(text, new RegExp(`rehearsal model[^]*ran ${command}`));
const fails = async (call, status, code) => {
  const e = await call.then(() => assert.fail(`no ${code}`), (e) => e);
  assert.ok(e instanceof OpenAI.APIError, String(e));
  assert.deepEqual([e.status, e.code], [status, code], String(e));
  return e;
};

const steps = {
  async models() {
    const ids = [];
    for await (const m of client.models.list()) ids.push(m.id);
    assert.deepEqual(ids, ["hermes-agent"]);
    assert.equal((await client.models.retrieve("hermes-agent")).id, "hermes-agent");
    await fails(client.models.retrieve("gpt-4o"), 404, "model_not_found");
  },

  async chat() {
    const c = await client.chat.completions.create({ ...user("run: plain"), model: "gpt-4o" });
    ran(c.choices[0].message.content, "plain");
    assert.equal(c.choices[0].finish_reason, "stop");
    assert.ok(c.usage.prompt_tokens > 0 && c.usage.total_tokens === c.usage.prompt_tokens + c.usage.completion_tokens);
  },

  async chatStream() {
    const stream = await client.chat.completions.create({ ...user("run: streamed"), stream: true, stream_options: { include_usage: true } });
    let text = "", usage, finish;
    for await (const chunk of stream) {
      // The client hands on our own events, too: they have no choices.
      if (!chunk.choices) continue;
      text += chunk.choices[0]?.delta?.content ?? "";
      finish = chunk.choices[0]?.finish_reason ?? finish;
      usage = chunk.usage ?? usage;
    }
    ran(text, "streamed");
    assert.equal(finish, "stop");
    assert.ok(usage.total_tokens > 0);
  },

  async chatStreamHelper() {
    const final = await client.chat.completions.stream(user("hello")).finalChatCompletion();
    assert.match(final.choices[0].message.content, /rehearsal model/);
  },

  async image() {
    const c = await client.chat.completions.create(user([
      { type: "text", text: "run: picture" },
      { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } },
    ]));
    ran(c.choices[0].message.content, "picture");
  },

  async errors() {
    await fails(client.chat.completions.create(user([{ type: "file", file: { file_id: "f" } }])), 400, "unsupported_content_type");
    const e = await fails(new OpenAI({ baseURL, apiKey: "wrong" }).models.list(), 401, "invalid_api_key");
    assert.ok(e instanceof OpenAI.AuthenticationError);
    await fails(client.responses.retrieve("resp_none"), 404, "response_not_found");
    // A turn that failed is not sent again by the client: its tools have run.
    const limited = await fails(client.chat.completions.create(user("fail: rate limit")), 429, "rate_limit_exceeded");
    assert.equal(limited.headers.get("retry-after"), "7");
    await assert.rejects(async () => {
      const stream = await client.chat.completions.create({ ...user("fail: in the middle"), stream: true });
      for await (const chunk of stream) void chunk;
    }, (e) => e instanceof OpenAI.APIError && e.error.code === "provider_error");
  },

  async abort() {
    const stream = await client.chat.completions.create({ ...user("wait"), stream: true });
    for await (const chunk of stream) {
      assert.ok(chunk.choices);
      break; // leaves the loop and aborts the request
    }
  },

  async responses() {
    const one = await client.responses.create({ input: "run: first", instructions: "be exact" });
    ran(one.output_text, "first");
    assert.deepEqual(one.output.map((o) => o.type), ["message", "function_call", "function_call_output", "message"]);
    const two = await client.responses.create({ input: "run: second", previous_response_id: one.id });
    ran(two.output_text, "second");
    assert.equal((await client.responses.retrieve(two.id)).previous_response_id, one.id);
    const items = await client.responses.create({ store: false, input: [{ role: "user", content: [{ type: "input_text", text: "run: item" }] }] });
    ran(items.output_text, "item");
    await client.responses.delete(one.id);
    await fails(client.responses.create({ input: "x", previous_response_id: one.id }), 404, "previous_response_not_found");
  },

  async responseStream() {
    const types = new Set();
    let text = "";
    const stream = client.responses.stream({ input: "run: streamed", conversation: "sdk" });
    for await (const e of stream) {
      types.add(e.type);
      if (e.type === "response.output_text.delta") text += e.delta;
    }
    const final = await stream.finalResponse();
    ran(text, "streamed");
    ran(final.output_text, "streamed");
    assert.equal(final.status, "completed");
    for (const t of ["response.created", "response.output_item.added", "response.output_item.done", "response.completed"]) assert.ok(types.has(t), t);
  },
};

for (const [name, step] of Object.entries(steps)) {
  try {
    await step();
    console.log(`ok ${name}`);
  } catch (e) {
    console.log(`FAILED ${name}: ${e.stack}`);
    process.exitCode = 1;
  }
}
