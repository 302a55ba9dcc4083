<?php
// Prints 600 bytes.
require __DIR__ . '/../lib/app.php';

echo str_pad('page of ' . TENANT . ' for ' . NONCE . "\n", 600, '.');
