// Preloaded into a command: at its end, writes the directories of src/ and the packages that it loaded as a line of JSON to the file in
// LOADED_ROOMS.
import { writeFileSync } from 'node:fs';
import { registerHooks } from 'node:module';

const rooms = new Set<string>();

registerHooks({
  load(url, context, next) {
    const room = /\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url)?.[1] ?? /\/src\/([^/]+)\//.exec(url)?.[1];
    if (room !== undefined) rooms.add(room);
    return next(url, context);
  },
});
process.on('exit', () => writeFileSync(process.env.LOADED_ROOMS ?? '/dev/null', JSON.stringify([...rooms].sort())));
