// SPDX-License-Identifier: Apache-2.0
/* The rest of the C ABI from C99: files, hints, batches that are waited for or
 * sent away, step graphs, tensors, forks. */
#define _POSIX_C_SOURCE 200809L

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capi_checks.h"
#include "spillway/spillway.h"

static spillway_cache* OpenToml(const char* text) {
  spillway_cache* cache = NULL;
  OK(spillway_cache_open_toml(T(text), "test.toml", &cache));
  if (cache == NULL) {
    printf("no cache, no test\n");
    exit(1);
  }
  return cache;
}

static spillway_cache* OpenSmall(void) { return OpenToml("capacity = \"4MiB\"\n"); }

/* Calls a DLPack tensor's own deleter. A function of C++ has another type than its
 * declaration in C, by the book of clang's checker. */
#if defined(__clang__)
__attribute__((no_sanitize("function")))
#endif
static void
Delete(void (*deleter)(void*), void* tensor) {
  deleter(tensor);
}

static void Put(spillway_cache* cache, const char* key, const char* value) {
  OK(spillway_cache_put(cache, T(key), value, strlen(value), NULL));
}

static void FromFile(void) {
  char path[] = "/tmp/spillway-capi-XXXXXX";
  spillway_cache* cache = NULL;
  const char* good = "capacity = \"1MiB\"\n";
  const int fd = mkstemp(path);
  CHECK(fd >= 0 && write(fd, good, strlen(good)) == (ssize_t)strlen(good));
  OK(spillway_cache_open_file(path, &cache));
  OK(spillway_cache_close(cache));
  CHECK(write(fd, "policy = \"best\"\n", 16) == 16);
  BAD(spillway_cache_open_file(path, &cache));
  CHECK(cache == NULL && HasText(spillway_error_message(), path));
  close(fd);
  unlink(path);
  REFUSED(spillway_cache_open_file(path, &cache), SPILLWAY_UNAVAILABLE);
  CHECK(HasText(spillway_error_message(), "No such file"));
  BAD(spillway_cache_open_file(NULL, &cache));
  BAD(spillway_cache_open_file(path, NULL));
}

/* Settings that came later reach a cache through the struct, too. */
static void LaterOptions(void) {
  spillway_options options;
  spillway_cache* cache = NULL;
  OK(spillway_options_init(&options, sizeof options, NULL));
  CHECK(options.ask == 1 && options.disk_read_back == 1 && options.prefetch_steps == 1);
  CHECK(options.scrub_every_ms == INT64_C(604800000));
  options.capacity_bytes = 1 << 20;
  options.zero_before_release = "sometimes";
  BAD(spillway_cache_open(&options, &cache));
  CHECK(HasText(spillway_error_message(), "zero_before_release"));
  options.zero_before_release = "never";
  options.log = "loud";
  BAD(spillway_cache_open(&options, &cache));
  options.log = "warning";
  CHECK(options.history_entries > 0 && options.trace == NULL);
  options.trace = "/nowhere/uses";
  REFUSED(spillway_cache_open(&options, &cache), SPILLWAY_UNAVAILABLE);
  CHECK(HasText(spillway_error_message(), "trace '/nowhere/uses'"));
  options.trace = NULL;
  OK(spillway_cache_open(&options, &cache));
  OK(spillway_cache_close(cache));
}

static void GetWith(void) {
  spillway_cache* cache = OpenSmall();
  spillway_get_options how;
  spillway_lease lease;
  spillway_lease_facts facts;
  memset(&how, 0, sizeof how);
  how.size = sizeof how;
  Put(cache, "key", "value");
  OK(spillway_cache_get_with(cache, T("key"), NULL, &lease));
  CHECK(lease.bytes == 5);
  facts.size = sizeof facts;
  OK(spillway_lease_read_facts(&lease, &facts));
  CHECK(facts.place == SPILLWAY_HOST);
  OK(spillway_lease_release(&lease));
  how.wait_ms = SPILLWAY_NONE;
  how.hint = SPILLWAY_HINT_AGAIN;
  how.eta_ms = 5000;
  OK(spillway_cache_get_with(cache, T("key"), &how, &lease));
  CHECK(lease.handle != 0);
  OK(spillway_lease_release(&lease));
  OK(spillway_cache_get_with(cache, T("nowhere"), &how, &lease));
  CHECK(lease.handle == 0);
  how.where = SPILLWAY_DEVICE; /* The cpu card has no addresses of its own to lend. */
  REFUSED(spillway_cache_get_with(cache, T("key"), &how, &lease), SPILLWAY_NOT_RESIDENT);
  how.where = 7;
  BAD(spillway_cache_get_with(cache, T("key"), &how, &lease));
  how.where = SPILLWAY_HOST;
  how.wait_ms = -2;
  BAD(spillway_cache_get_with(cache, T("key"), &how, &lease));
  how.wait_ms = 0;
  how.hint = 5;
  BAD(spillway_cache_get_with(cache, T("key"), &how, &lease));
  how.size = 0;
  BAD(spillway_cache_get_with(cache, T("key"), &how, &lease));
  BAD(spillway_cache_get_with(cache, T("key"), NULL, NULL));
  OK(spillway_cache_close(cache));
}

static void ContainsMany(void) {
  spillway_cache* cache = OpenSmall();
  spillway_bytes keys[4] = {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}};
  uint8_t present[4] = {9, 9, 9, 9};
  size_t run = 9;
  Put(cache, "a", "1");
  Put(cache, "b", "2");
  Put(cache, "d", "4");
  OK(spillway_cache_contains_many(cache, keys, 4, present, &run));
  CHECK(run == 2 && present[0] == 1 && present[1] == 1 && present[2] == 0 && present[3] == 1);
  OK(spillway_cache_contains_many(cache, keys, 4, NULL, &run));
  CHECK(run == 2);
  OK(spillway_cache_contains_many(cache, keys, 0, NULL, &run));
  CHECK(run == 0);
  BAD(spillway_cache_contains_many(cache, NULL, 2, present, &run));
  BAD(spillway_cache_contains_many(NULL, keys, 2, present, &run));
  OK(spillway_cache_close(cache));
}

static spillway_operation Operation(int32_t kind, const char* key) {
  spillway_operation operation;
  memset(&operation, 0, sizeof operation);
  operation.size = sizeof operation;
  operation.kind = kind;
  operation.key = T(key);
  return operation;
}

static void Batches(void) {
  spillway_cache* cache = OpenSmall();
  spillway_operation operations[3];
  spillway_fragment pieces[2] = {{"Hel", 3, SPILLWAY_HOST}, {"lo", 2, SPILLWAY_HOST}};
  spillway_completion completion;
  char copy[8] = "";
  spillway_sink into = {copy, sizeof copy, SPILLWAY_HOST};
  size_t failures = 9;
  size_t count = 0;

  operations[0] = Operation(SPILLWAY_PUT, "k");
  operations[0].source = pieces;
  operations[0].source_count = 2;
  operations[0].hint = SPILLWAY_HINT_AGAIN;
  operations[0].eta_ms = 1000;
  operations[0].no_idle_ttl = 1;
  operations[1] = Operation(SPILLWAY_PUT, "");
  OK(spillway_cache_run(cache, operations, 2, -1, &failures));
  CHECK(failures == 1 && operations[0].code == SPILLWAY_OK);
  CHECK(operations[1].code == SPILLWAY_INVALID_ARGUMENT && operations[1].message[0] != '\0');

  operations[0] = Operation(SPILLWAY_GET, "k");
  operations[0].into = &into;
  operations[0].into_count = 1;
  operations[1] = Operation(SPILLWAY_GET, "k");
  operations[1].wait_ms = SPILLWAY_NONE;
  operations[2] = Operation(SPILLWAY_GET, "k");
  operations[2].order.after = 9;
  OK(spillway_cache_run(cache, operations, 3, 1000, &failures));
  CHECK(failures == 1 && operations[0].found == 1 && memcmp(copy, "Hello", 5) == 0);
  CHECK(operations[1].lease.handle != 0 && operations[1].lease.bytes == 5);
  OK(spillway_lease_release(&operations[1].lease));
  CHECK(operations[2].code == SPILLWAY_INVALID_ARGUMENT && HasText(operations[2].message, "after"));
  OK(spillway_cache_poll(cache, &completion, 1, 0, &count)); /* Nothing came that way. */
  CHECK(count == 0);

  operations[0] = Operation(SPILLWAY_ERASE, "k");
  OK(spillway_cache_submit_away(cache, operations, 1, -1, 77));
  OK(spillway_cache_poll(cache, &completion, 1, 20000, &count));
  CHECK(count == 1 && completion.tag == 77 && operations[0].found == 1);
  BAD(spillway_cache_submit_away(cache, NULL, 1, -1, 1));
  BAD(spillway_cache_submit_away(NULL, operations, 1, -1, 1));
  BAD(spillway_cache_run(NULL, operations, 1, -1, &failures));
  BAD(spillway_cache_run(cache, NULL, 1, -1, &failures));

  /* An operation as long as the first version's; what came later is 0. */
  memset(operations, 0x5a, sizeof operations);
  operations[0] = Operation(SPILLWAY_PUT, "old");
  memset(&operations[0].order, 0x5a, sizeof operations[0] - offsetof(spillway_operation, order));
  operations[0].size = offsetof(spillway_operation, order);
  OK(spillway_cache_run(cache, operations, 1, -1, &failures));
  CHECK(failures == 0);

  /* Sent away and not polled: closing waits for it. */
  operations[0] = Operation(SPILLWAY_GET, "old");
  OK(spillway_cache_submit_away(cache, operations, 1, -1, 78));
  OK(spillway_cache_close(cache));
  CHECK(operations[0].found == 1);
  OK(spillway_lease_release(&operations[0].lease));
}

static void OnDevice(void) {
  spillway_cache* cache = OpenSmall();
  spillway_fragment there = {"xyz", 3, SPILLWAY_DEVICE};
  spillway_operation operation = Operation(SPILLWAY_PUT, "k");
  size_t failures = 0;
  operation.source = &there;
  operation.source_count = 1;
  operation.order.after = SPILLWAY_AFTER_STREAM;
  OK(spillway_cache_run(cache, &operation, 1, -1, &failures));
  CHECK(failures == 1 && HasText(operation.message, "cpu device"));
  there.place = 3;
  OK(spillway_cache_run(cache, &operation, 1, -1, &failures));
  CHECK(failures == 1 && HasText(operation.message, "place"));
  there.place = SPILLWAY_HOST;
  operation.order.after = SPILLWAY_AFTER_EVENT;
  OK(spillway_cache_run(cache, &operation, 1, -1, &failures));
  CHECK(failures == 1 && HasText(operation.message, "event"));
  OK(spillway_cache_close(cache));
}

struct Keys {
  char text[256];
};

static int32_t SeeKey(spillway_bytes key, void* context) {
  struct Keys* keys = (struct Keys*)context;
  const size_t at = strlen(keys->text);
  snprintf(keys->text + at, sizeof keys->text - at, "%.*s ", (int)key.bytes, (const char*)key.data);
  return 0;
}

static int32_t SeeOne(spillway_bytes key, void* context) {
  (void)SeeKey(key, context);
  return 1;
}

static const char* kRun =
    "{\"run\":\"r\",\"steps\":[{\"id\":\"plan\"},{\"id\":\"act\"},{\"id\":\"review\"}],"
    "\"edges\":[{\"from\":\"plan\",\"to\":\"act\"},{\"from\":\"act\",\"to\":\"review\"}],"
    "\"bind\":[{\"agent\":\"plan\",\"key\":\"p\"},{\"agent\":\"review\",\"key\":\"v\"}]}";

static void Graphs(void) {
  spillway_cache* cache = OpenSmall();
  spillway_graph* graph = NULL;
  spillway_graph* same = NULL;
  spillway_state state;
  spillway_bytes taken[1];
  struct Keys keys = {""};
  int64_t steps = 9;
  char* text = NULL;

  OK(spillway_graph_open(&graph));
  OK(spillway_cache_attach(cache, graph));
  OK(spillway_graph_load(graph, T(kRun), &text));
  CHECK(text != NULL && strcmp(text, "r") == 0);
  spillway_free(text);
  Put(cache, "p", "1");
  Put(cache, "v", "2");
  OK(spillway_graph_start(graph, T("r"), T("plan")));
  OK(spillway_graph_steps_to(graph, T("r"), T("review"), &steps));
  CHECK(steps == 2);
  OK(spillway_graph_order(graph, 10, SeeKey, &keys));
  CHECK(strcmp(keys.text, "v p ") == 0);
  keys.text[0] = '\0';
  OK(spillway_cache_eviction_order(cache, SeeOne, &keys));
  CHECK(strcmp(keys.text, "v ") == 0); /* Wanted last, so it may go first. */
  OK(spillway_graph_agents(graph, T(""), &text));
  CHECK(HasText(text, "[\"review\",\"act\",\"plan\"]"));
  spillway_free(text);
  OK(spillway_graph_finish(graph, T("r"), T("plan"), NULL, 0));
  OK(spillway_graph_steps(graph, T("r"), &text));
  CHECK(HasText(text, "\"state\":\"done\"") && HasText(text, "\"state\":\"ready\""));
  spillway_free(text);
  OK(spillway_graph_explain(graph, T("v"), &text));
  CHECK(HasText(text, "review"));
  spillway_free(text);
  OK(spillway_graph_explain(graph, T("never heard of"), &text));
  CHECK(text == NULL);

  /* A run told bit by bit, with a choice and a loop. */
  OK(spillway_graph_begin(graph, T("s"), T(""), T("flow")));
  OK(spillway_graph_add_step(graph, T("s"), T("one"), T("")));
  OK(spillway_graph_add_step(graph, T("s"), T("two"), T("agent2")));
  OK(spillway_graph_add_step(graph, T("s"), T("three"), T("")));
  OK(spillway_graph_add_edge(graph, T("s"), T("one"), T("two"), 0, T("c")));
  OK(spillway_graph_add_edge(graph, T("s"), T("one"), T("three"), 0, T("c")));
  OK(spillway_graph_add_edge(graph, T("s"), T("two"), T("one"), 1, T("")));
  OK(spillway_graph_bind(graph, T("s"), T("agent2"), T("two's"), SPILLWAY_KEY_VOLATILE));
  BAD(spillway_graph_bind(graph, T("s"), T("agent2"), T("two's"), 9));
  OK(spillway_graph_validate(graph, T("s"), &text));
  CHECK(text != NULL && text[0] == '[');
  spillway_free(text);
  OK(spillway_graph_start(graph, T("s"), T("one")));
  taken[0] = T("two");
  OK(spillway_graph_finish(graph, T("s"), T("one"), taken, 1));
  OK(spillway_graph_steps_to(graph, T("s"), T("two"), &steps));
  CHECK(steps == 0);
  OK(spillway_graph_start(graph, T("s"), T("two")));
  OK(spillway_graph_fail(graph, T("s"), T("two"), SPILLWAY_FAIL_RETRY));
  BAD(spillway_graph_fail(graph, T("s"), T("two"), 4));
  OK(spillway_graph_start(graph, T("s"), T("two")));
  OK(spillway_graph_finish(graph, T("s"), T("two"), NULL, 0));
  OK(spillway_graph_loop(graph, T("s"), T("two"), T("one")));
  OK(spillway_graph_skip(graph, T("s"), T("one")));
  OK(spillway_graph_end(graph, T("s"), SPILLWAY_RUN_CANCELLED));
  BAD(spillway_graph_end(graph, T("s"), 0));
  BAD(spillway_graph_start(graph, T("s"), T("one"))); /* It has ended. */

  /* The cache has the same graph, and goes on with it when we have let go. */
  OK(spillway_cache_graph(cache, &same));
  OK(spillway_graph_close(graph));
  OK(spillway_graph_steps_to(same, T("r"), T("act"), &steps));
  CHECK(steps == 0);
  OK(spillway_graph_end(same, T("r"), SPILLWAY_RUN_FINISHED));
  OK(spillway_graph_close(same));
  OK(spillway_cache_attach(cache, NULL));
  state.size = sizeof state;
  OK(spillway_cache_read_state(cache, &state));
  CHECK(state.mode == SPILLWAY_RELAXED);

  BAD(spillway_graph_load(NULL, T("{}"), NULL));
  OK(spillway_graph_open(&graph));
  BAD(spillway_graph_load(graph, T("{\"run\":3}"), &text));
  BAD(spillway_graph_load(graph, T("not json"), NULL));
  BAD(spillway_graph_start(graph, T("nobody"), T("x")));
  BAD(spillway_graph_steps(graph, T("nobody"), &text));
  BAD(spillway_graph_steps(graph, T("nobody"), NULL));
  BAD(spillway_graph_order(graph, 1, NULL, NULL));
  OK(spillway_graph_close(graph));
  OK(spillway_graph_close(NULL));
  OK(spillway_cache_close(cache));
}

/* A graph from elsewhere names agents; a key of `context:<agent>` is that agent's. */
static void Agents(void) {
  spillway_cache* cache = OpenSmall();
  spillway_bytes agents[2];
  struct Keys keys = {""};
  Put(cache, "context:late", "1");
  Put(cache, "context:soon", "2");
  agents[0] = T("late");
  agents[1] = T("soon");
  OK(spillway_cache_attach_agents(cache, agents, 2));
  OK(spillway_cache_eviction_order(cache, SeeKey, &keys));
  CHECK(strcmp(keys.text, "context:late context:soon ") == 0);
  OK(spillway_cache_attach_agents(cache, NULL, 0));
  BAD(spillway_cache_attach_agents(cache, NULL, 2));
  BAD(spillway_cache_attach_agents(NULL, agents, 2));
  OK(spillway_cache_close(cache));
}

static void TouchWith(void) {
  spillway_cache* cache = OpenSmall();
  spillway_graph* graph = NULL;
  spillway_touch_options told;
  int32_t there = 9;
  int64_t steps = 9;
  char* text = NULL;
  OK(spillway_cache_graph(cache, &graph));
  OK(spillway_graph_load(graph, T(kRun), NULL));
  Put(cache, "k", "1");
  memset(&told, 0, sizeof told);
  told.size = sizeof told;
  told.hint = SPILLWAY_HINT_AGAIN;
  told.eta_ms = 30000;
  told.agent = T("act");
  told.run = T("r");
  told.step = T("plan");
  OK(spillway_cache_touch_with(cache, T("k"), &told, &there));
  CHECK(there == 1);
  OK(spillway_graph_steps_to(graph, T("r"), T("act"), &steps));
  CHECK(steps == 1);
  OK(spillway_graph_explain(graph, T("k"), &text));
  CHECK(HasText(text, "act"));
  spillway_free(text);
  OK(spillway_cache_touch_with(cache, T("nowhere"), NULL, &there));
  CHECK(there == 0);
  told.run = T("");
  told.step = T("tool"); /* What it waits for. */
  OK(spillway_cache_touch_with(cache, T("k"), &told, NULL));
  told.run = T("r");
  told.step = T("");
  BAD(spillway_cache_touch_with(cache, T("k"), &told, NULL));
  told.run = T("no such run");
  told.step = T("plan");
  BAD(spillway_cache_touch_with(cache, T("k"), &told, NULL));
  told.step = T("");
  told.run = T("");
  told.hint = 8;
  BAD(spillway_cache_touch_with(cache, T("k"), &told, NULL));
  OK(spillway_graph_close(graph));
  OK(spillway_cache_close(cache));
}

static int Explains(spillway_cache* cache, const char* key, const char* words) {
  char* text = NULL;
  int has = 0;
  OK(spillway_cache_explain(cache, T(key), &text));
  has = HasText(text, words);
  spillway_free(text);
  return has;
}

/* What is said of the next use reaches the score, whichever way it is said; who
 * was built before there were words for it says less, and is understood. */
static void WordsOfTheNextUse(void) {
  spillway_options options;
  spillway_cache* cache = NULL;
  spillway_put_options put;
  spillway_get_options get;
  spillway_touch_options touch;
  spillway_operation operation;
  spillway_lease leases[2];
  spillway_bytes keys[2];
  size_t run = 0;
  OK(spillway_options_init(&options, sizeof options, NULL));
  options.capacity_bytes = 1 << 20;
  options.policy = "score";
  OK(spillway_cache_open(&options, &cache));
  memset(&put, 0, sizeof put);
  put.size = sizeof put;
  put.tokens = 100;
  put.hint = SPILLWAY_HINT_AGAIN;
  put.eta_ms = 30000;
  put.step = T("tool");
  put.recompute_us = 2000000;
  OK(spillway_cache_put(cache, T("k"), "v", 1, &put));
  CHECK(Explains(cache, "k", "waits for tool"));
  CHECK(Explains(cache, "k", "said to be used again"));
  CHECK(Explains(cache, "k", "A miss would cost 2 s."));
  memset(&get, 0, sizeof get);
  get.size = sizeof get;
  get.step = T("human");
  OK(spillway_cache_get_with(cache, T("k"), &get, &leases[0]));
  OK(spillway_lease_release(&leases[0]));
  CHECK(Explains(cache, "k", "waits for human"));
  get.size = offsetof(spillway_get_options, step);
  get.step = T("nobody reads this");
  OK(spillway_cache_get_with(cache, T("k"), &get, &leases[0]));
  OK(spillway_lease_release(&leases[0]));
  CHECK(Explains(cache, "k", "waits for human"));
  memset(&touch, 0, sizeof touch);
  touch.size = sizeof touch;
  touch.step = T("build");
  touch.hint = SPILLWAY_HINT_DONE;
  OK(spillway_cache_touch_with(cache, T("k"), &touch, NULL));
  CHECK(Explains(cache, "k", "waits for build"));
  CHECK(Explains(cache, "k", "said to be done"));
  operation = Operation(SPILLWAY_TOUCH, "k");
  operation.step = T("test");
  OK(spillway_cache_run(cache, &operation, 1, -1, NULL));
  CHECK(Explains(cache, "k", "waits for test"));
  operation = Operation(SPILLWAY_GET, "k");
  operation.step = T("read");
  OK(spillway_cache_run(cache, &operation, 1, -1, NULL));
  OK(spillway_lease_release(&operation.lease));
  CHECK(Explains(cache, "k", "waits for read"));
  get.size = sizeof get;
  get.step = T("chain");
  keys[0] = T("k");
  keys[1] = T("nowhere");
  OK(spillway_cache_get_chain_with(cache, keys, 2, &get, leases, &run));
  CHECK(run == 1);
  OK(spillway_lease_release(&leases[0]));
  CHECK(Explains(cache, "k", "waits for chain"));
  put.recompute_us = -1;
  BAD(spillway_cache_put(cache, T("k"), "v", 1, &put));
  put.recompute_us = 0;
  put.step.data = NULL;
  BAD(spillway_cache_put(cache, T("k"), "v", 1, &put));
  OK(spillway_cache_close(cache));
}

/* DLPack's struct, as a consumer reads it. */
struct tensor {
  void* data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};
struct managed {
  struct tensor tensor;
  void* context;
  void (*deleter)(struct managed*);
};

static void Tensors(void) {
  spillway_cache* cache = OpenSmall();
  spillway_lease lease;
  spillway_shape shape;
  int64_t extents[2] = {2, 3};
  int64_t strides[2] = {3, 1};
  void* made = NULL;
  struct managed* tensor;
  float values[6] = {1, 2, 3, 4, 5, 6};
  OK(spillway_cache_put(cache, T("t"), values, sizeof values, NULL));
  OK(spillway_cache_get(cache, T("t"), &lease));
  memset(&shape, 0, sizeof shape);
  shape.size = sizeof shape;
  shape.device_type = 1;
  shape.code = 2;
  shape.bits = 32;
  shape.lanes = 1;
  shape.ndim = 2;
  shape.shape = extents;
  extents[0] = 3; /* Larger than the value. */
  BAD(spillway_lease_to_dlpack(&lease, &shape, 0, &made));
  CHECK(made == NULL && lease.handle != 0);
  extents[0] = INT64_MAX;
  BAD(spillway_lease_to_dlpack(&lease, &shape, 0, &made));
  extents[0] = -1;
  BAD(spillway_lease_to_dlpack(&lease, &shape, 0, &made));
  extents[0] = INT64_MIN;
  BAD(spillway_lease_to_dlpack(&lease, &shape, 0, &made));
  extents[0] = 2;
  shape.size = offsetof(spillway_shape, shape) + 3; /* Half an address. */
  BAD(spillway_lease_to_dlpack(&lease, &shape, 0, &made));
  CHECK(strstr(spillway_error_message(), "shape.size") != NULL);
  shape.size = sizeof shape;
  extents[0] = 2;
  shape.strides = strides;
  strides[0] = -3;
  BAD(spillway_lease_to_dlpack(&lease, &shape, 0, &made));
  strides[0] = 3;
  shape.offset = 4;
  BAD(spillway_lease_to_dlpack(&lease, &shape, 0, &made));
  shape.offset = 0;
  shape.bits = 4;
  BAD(spillway_lease_to_dlpack(&lease, &shape, 0, &made));
  shape.bits = 32;
  OK(spillway_lease_to_dlpack(&lease, &shape, 0, &made));
  CHECK(lease.handle == 0 && made != NULL);
  struct managed* const first = made;
  BAD(spillway_lease_to_dlpack(&lease, &shape, 0, &made)); /* It has been given away. */
  Delete((void (*)(void*))first->deleter, first);
  OK(spillway_cache_get(cache, T("t"), &lease));
  OK(spillway_lease_to_dlpack(&lease, &shape, 1, &made));
  Delete(((void (**)(void*))made)[2], made); /* version, context, deleter */
  OK(spillway_cache_get(cache, T("t"), &lease));
  shape.strides = NULL;
  OK(spillway_lease_to_dlpack(&lease, &shape, 0, &made));
  tensor = (struct managed*)made;
  CHECK(tensor->tensor.ndim == 2 && tensor->tensor.shape[1] == 3 && tensor->tensor.strides[0] == 3);
  CHECK(memcmp(tensor->tensor.data, values, sizeof values) == 0);
  OK(spillway_cache_close(cache)); /* Tensors outlive the cache. */
  CHECK(memcmp(tensor->tensor.data, values, sizeof values) == 0);
  Delete((void (*)(void*))tensor->deleter, tensor);
}

static void Forks(void) {
  spillway_cache* cache = OpenSmall();
  spillway_cache* own = NULL;
  spillway_lease lease;
  spillway_lease parents;
  int status = -1;
  pid_t child;
  Put(cache, "k", "value");
  OK(spillway_cache_get(cache, T("k"), &parents));
  fflush(stdout);
  child = fork();
  if (child == 0) {
    failed = 0;
    REFUSED(spillway_cache_get(cache, T("k"), &lease), SPILLWAY_CLOSED);
    CHECK(HasText(spillway_error_message(), "fork"));
    REFUSED(spillway_cache_close(cache), SPILLWAY_CLOSED);
    CHECK(spillway_cache_fd(cache) == -1);
    BAD(spillway_lease_release(&parents));
    own = OpenSmall();
    Put(own, "mine", "1");
    OK(spillway_cache_get(own, T("mine"), &lease));
    CHECK(lease.bytes == 1);
    OK(spillway_lease_release(&lease));
    OK(spillway_cache_close(own));
    fflush(stdout);
    _exit(failed == 0 ? 0 : 1);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  OK(spillway_lease_release(&parents));
  OK(spillway_cache_close(cache));
}

int main(void) {
  FromFile();
  LaterOptions();
  GetWith();
  ContainsMany();
  Batches();
  OnDevice();
  Graphs();
  Agents();
  TouchWith();
  WordsOfTheNextUse();
  Tensors();
  Forks();
  return Finish();
}
