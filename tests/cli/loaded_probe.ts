// Preloaded into a server process: what it loads, packages by their name and Node's own modules by theirs. Every message asks for it.
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
  const own = moduleLoadList.filter((name) => name.startsWith('NativeModule internal/deps/'));
  process.send?.([...packages, ...own]);
});
// The test's channel keeps no server alive.
process.channel?.unref();
