// A metadata store that stops responding while a server starts: the operator gets a message, not the place in the source.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OperatorError } from '../../src/operator/operator_error.ts';
import { StoreUnavailable } from '../../src/store/store_errors.ts';
import { start } from '../server.ts';

for (const statement of [1, 20, 60])
  test(`is reported as such at statement ${statement}`, async () => {
    let statements = 0;
    const injectStore = () => {
      if (++statements >= statement) throw new StoreUnavailable('the metadata store does not respond');
    };
    const failed = await start({}, { injectStore }).then(
      (server) => server.close().then(() => undefined),
      (error: unknown) => error,
    );
    assert.ok(statements >= statement, `the start has only ${statements} statements`);
    assert.ok(failed instanceof OperatorError, String((failed as Error)?.stack));
    assert.match(failed.message, /metadata store does not respond.*start the server again/s);
  });
