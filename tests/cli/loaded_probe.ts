// Preloaded into a server process: reports, on each message, which packages and which of Node's own modules are loaded.
import { registerHooks } from 'node:module';

const packages = new Set<string>();

registerHooks({
  load(url, context, next) {
    const name = /\/node_modules\/((?:@[^/]+\/)?[^/]+)\/(?!.*\/node_modules\/)/.exec(url)?.[1];
    if (name !== undefined) packages.add(name);
    return next(url, context);
  },
});

process.on('message', () => {
  const { moduleLoadList } = process as unknown as { readonly moduleLoadList: readonly string[] };
  const preloaded = moduleLoadList.filter((name) => name.startsWith('NativeModule internal/deps/'));
  process.send?.([...packages, ...preloaded]);
});
// The channel of the test does not keep the server alive.
process.channel?.unref();
