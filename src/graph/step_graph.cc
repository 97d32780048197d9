// SPDX-License-Identifier: Apache-2.0
// StepGraph: takes the mutex and calls GraphCore.
#include "spillway/step_graph.h"

#include "graph/document.h"
#include "graph/step_graph_impl.h"

namespace spillway {

using Lock = MutexLock;

// A lock for calls that give input to the graph. On destruction it releases the mutex and then
// calls the listeners.
class SPILLWAY_SCOPED_CAPABILITY StepGraph::Telling {
 public:
  explicit Telling(Impl& impl) SPILLWAY_ACQUIRE(impl.mutex) : impl_(impl) { impl.mutex.lock(); }
  ~Telling() SPILLWAY_RELEASE() {
    impl_.times_told.fetch_add(1, std::memory_order_release);
    const auto listeners = impl_.listeners;
    impl_.mutex.unlock();
    if (listeners == nullptr) return;
    for (const Impl::Listener& listener : *listeners) listener.heard();
  }
  Telling(const Telling&) = delete;
  Telling& operator=(const Telling&) = delete;

 private:
  Impl& impl_;
};

StepGraph::StepGraph(const StepGraphOptions& options) : impl_(std::make_unique<Impl>(options)) {}
StepGraph::~StepGraph() = default;

Status StepGraph::BeginRun(std::string_view run, const RunSpec& spec, TimePoint now) {
  const Telling telling(*impl_);
  return impl_->core.BeginRun(run, spec, now);
}
Status StepGraph::AddStep(std::string_view run, const StepSpec& step, TimePoint now) {
  const Telling telling(*impl_);
  return impl_->core.AddStep(run, step, now);
}
Status StepGraph::AddEdge(std::string_view run, const EdgeSpec& edge, TimePoint now) {
  const Telling telling(*impl_);
  return impl_->core.AddEdge(run, edge, now);
}
Status StepGraph::Bind(std::string_view run, std::string_view agent, std::string_view key,
                       KeyKind kind, TimePoint now) {
  const Telling telling(*impl_);
  return impl_->core.Bind(run, agent, key, kind, now);
}
Status StepGraph::Link(std::string_view key, std::string_view parent) {
  const Telling telling(*impl_);
  return impl_->core.Link(key, parent);
}

Result<std::string> StepGraph::Load(std::string_view json, TimePoint now) {
  const Result<GraphDocument> document = ParseGraphDocument(json);
  if (!document) return document.error();
  const Telling telling(*impl_);
  if (Status ok = impl_->core.Load(*document, now); !ok) return ok.error();
  return document->run;
}

Status StepGraph::Start(std::string_view run, std::string_view step, TimePoint now) {
  const Telling telling(*impl_);
  return impl_->core.Start(run, step, now);
}
Status StepGraph::Finish(std::string_view run, std::string_view step,
                         const std::optional<std::vector<std::string>>& taken, TimePoint now) {
  const Telling telling(*impl_);
  return impl_->core.Finish(run, step, taken, now);
}
Status StepGraph::Skip(std::string_view run, std::string_view step, TimePoint now) {
  const Telling telling(*impl_);
  return impl_->core.Skip(run, step, now);
}
Status StepGraph::Fail(std::string_view run, std::string_view step, OnFail on_fail, TimePoint now) {
  const Telling telling(*impl_);
  return impl_->core.Fail(run, step, on_fail, now);
}
Status StepGraph::Loop(std::string_view run, std::string_view from, std::string_view to,
                       TimePoint now) {
  const Telling telling(*impl_);
  return impl_->core.Loop(run, from, to, now);
}
Status StepGraph::EndRun(std::string_view run, RunState how, TimePoint now) {
  const Telling telling(*impl_);
  return impl_->core.EndRun(run, how, now);
}
std::vector<std::string> StepGraph::Expire(TimePoint now) {
  const Telling telling(*impl_);
  return impl_->core.Expire(now);
}
Status StepGraph::Advise(std::string_view key, Duration eta, double p, TimePoint now) {
  const Telling telling(*impl_);
  return impl_->core.Advise(key, eta, p, now);
}
void StepGraph::Forget(std::string_view key) {
  const Telling telling(*impl_);
  impl_->core.Forget(key);
}
Status StepGraph::Own(std::string_view agent, std::string_view key) {
  const Telling telling(*impl_);
  return impl_->core.Own(agent, key);
}
void StepGraph::Disown(std::string_view agent, std::string_view key) {
  const Telling telling(*impl_);
  impl_->core.Disown(agent, key);
}

Result<std::optional<std::uint32_t>> StepGraph::steps_to_execution(std::string_view run,
                                                                   std::string_view step,
                                                                   TimePoint now) const {
  const Result<StepFacts> facts = Step(run, step, now);
  if (!facts) return facts.error();
  return facts->steps;
}
Result<StepFacts> StepGraph::Step(std::string_view run, std::string_view step,
                                  TimePoint now) const {
  const Lock lock(impl_->mutex);
  return impl_->core.Step(run, step, now);
}
Result<std::vector<StepFacts>> StepGraph::Steps(std::string_view run, TimePoint now) const {
  const Lock lock(impl_->mutex);
  return impl_->core.Steps(run, now);
}
std::vector<RunView> StepGraph::View(const ViewQuery& query, TimePoint now) const {
  const Lock lock(impl_->mutex);
  return impl_->core.View(query, now);
}
Result<std::vector<Finding>> StepGraph::Validate(std::string_view run) const {
  const Lock lock(impl_->mutex);
  return impl_->core.Validate(run);
}
std::optional<RunState> StepGraph::run_state(std::string_view run) const {
  const Lock lock(impl_->mutex);
  return impl_->core.run_state(run);
}

KeyFacts StepGraph::Facts(std::string_view key, TimePoint now) const {
  const Lock lock(impl_->mutex);
  return impl_->core.Facts(key, now, Far::kExact);
}
KeyFacts StepGraph::Glance(std::string_view key, TimePoint now) const {
  const Lock lock(impl_->mutex);
  return impl_->core.Facts(key, now, Far::kRoughly);
}
Result<std::string> StepGraph::AgentOf(std::string_view run, std::string_view step) const {
  const Lock lock(impl_->mutex);
  return impl_->core.AgentOf(run, step);
}
Changes StepGraph::ChangedSince(std::uint64_t version, TimePoint now) const {
  const Lock lock(impl_->mutex);
  return impl_->core.ChangedSince(version, now);
}
Pulse StepGraph::VisitChanges(std::uint64_t version, TimePoint now, const KeyVisitor& visit) const {
  const Lock lock(impl_->mutex);
  return impl_->core.VisitChanges(version, now, visit);
}
std::uint64_t StepGraph::told() const { return impl_->times_told.load(std::memory_order_acquire); }
std::uint64_t StepGraph::version() const {
  const Lock lock(impl_->mutex);
  return impl_->core.version();
}
std::vector<std::string> StepGraph::eviction_order(std::size_t most, TimePoint now) const {
  const Lock lock(impl_->mutex);
  return impl_->core.eviction_order(most, now);
}
std::vector<PrefetchCandidate> StepGraph::prefetch_candidates(const PrefetchQuery& query,
                                                              TimePoint now) const {
  const Lock lock(impl_->mutex);
  return impl_->core.prefetch_candidates(query, now);
}
std::optional<KeyExplanation> StepGraph::Explain(std::string_view key, TimePoint now) const {
  const Lock lock(impl_->mutex);
  return impl_->core.Explain(key, now);
}

std::vector<std::string> StepGraph::get_eviction_priority_order(std::string_view client,
                                                                TimePoint now) const {
  const Lock lock(impl_->mutex);
  return impl_->core.AgentOrder(client, now);
}
std::optional<std::uint32_t> StepGraph::compute_steps_to_execution(std::string_view client,
                                                                   std::string_view agent,
                                                                   TimePoint now) const {
  const Lock lock(impl_->mutex);
  return impl_->core.AgentSteps(client, agent, now);
}

void StepGraph::Listen(const void* who, std::function<void()> heard) {
  const Lock lock(impl_->mutex);
  auto listeners = std::make_shared<std::vector<Impl::Listener>>();
  if (impl_->listeners != nullptr) *listeners = *impl_->listeners;
  std::erase_if(*listeners, [who](const Impl::Listener& each) { return each.who == who; });
  if (heard) listeners->push_back({who, std::move(heard)});
  impl_->listeners = std::move(listeners);
}

bool StepGraph::attached() const {
  const Lock lock(impl_->mutex);
  return impl_->core.attached();
}
StepGraphStats StepGraph::stats() const {
  const Lock lock(impl_->mutex);
  return impl_->core.stats();
}

}  // namespace spillway
