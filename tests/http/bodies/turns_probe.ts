// Preloaded into a server process: measures the maximum processor time of its main thread between two turns of the event loop. Each
// message requests it and restarts the measurement.
let longestMs = 0;
let last = process.threadCpuUsage();

function measureTurn(): void {
  const { user, system } = process.threadCpuUsage(last);
  longestMs = Math.max(longestMs, (user + system) / 1000);
  last = process.threadCpuUsage();
}

process.on('message', () => {
  measureTurn();
  process.send?.(longestMs);
  longestMs = 0;
});
// The channel of the test does not keep the server alive.
process.channel?.unref();
// A timer is due in each turn that takes long enough to matter; with setImmediate, an idle server would never sleep.
setInterval(measureTurn, 1).unref();
