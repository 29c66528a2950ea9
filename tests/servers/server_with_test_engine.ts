// Starts a server as `npm start` does, with the test engine besides DuckDB. TEST_ENGINE_PORT: the port of the engine's process.
import { serveCommand } from '../../src/cli/serve.ts';
import { startServer } from '../../src/main.ts';
import { readSettings } from '../../src/settings/read_settings.ts';
import { sqliteEngine } from '../engines/sqlite/sqlite.ts';

process.umask(0o077);
const otherEngines = [sqliteEngine(async () => Number(process.env.TEST_ENGINE_PORT))];
const command = serveCommand({ start: (settings) => startServer(settings, { otherEngines }) });
const settings = readSettings(process.argv.slice(2), process.env, command.name);
await command.run(settings, (line) => void process.stdout.write(`${line}\n`));
