// Preloaded into a server process: the most processor time that its main thread spends between two turns of the event loop. Every
// message asks for it and begins anew.
let longestMs = 0;
let last = process.threadCpuUsage();

function look(): void {
  const { user, system } = process.threadCpuUsage(last);
  longestMs = Math.max(longestMs, (user + system) / 1000);
  last = process.threadCpuUsage();
}

process.on('message', () => {
  look();
  process.send?.(longestMs);
  longestMs = 0;
});
// The test's channel keeps no server alive.
process.channel?.unref();
// A timer is due in each turn that takes long enough to matter; with setImmediate, an idle server would never rest.
setInterval(look, 1).unref();
