<?php
// Writes each event once the client has told that it got the one before.
require __DIR__ . '/../lib/app.php';

header('Content-Type: text/event-stream');
while (ob_get_level() > 0) {
    ob_end_clean();
}
for ($event = 0; $event < 5; $event++) {
    if ($event > 0 && !told(NONCE . '.' . $event)) {
        exit("data: too late\n\n");
    }
    echo 'data: ', $event, ' of ', TENANT, ' for ', NONCE, "\n\n";
    flush();
}
