<?php
// Prints the parameters, and the environment of the process.
require __DIR__ . '/../lib/app.php';

header('Content-Type: application/json');
echo json_encode(['server' => $_SERVER, 'environment' => getenv()], JSON_INVALID_UTF8_SUBSTITUTE);
